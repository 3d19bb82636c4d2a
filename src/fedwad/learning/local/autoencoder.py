"""A small autoencoder, which maps many features to a few; trained on one machine.

Two fully connected layers lead down to the code and two up again, with a ReLU inside each half:

    encode(x) = B2 max(0, B1 x' + b1) + b2,    x' = (x - mean) / scale,
    decode(z) = mean + scale (C2 max(0, C1 z + c1) + c2),

Training minimises the mean of |x' - decode'(encode(x))|^2. `mean` is the mean sample. `scale` is
one number, the root mean square of x - mean over all features, so the geometry of the data is
kept.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_whole
from fedwad._files import write_atomically
from fedwad.errors import InputError
from fedwad.learning.local._threads import single_threaded_torch

__all__ = ["Autoencoder", "fit"]

Float32s = NDArray[np.float32]

_CHUNK = 4096  # samples at a time, so that little memory is needed besides the result
_FORMAT = "fedwad autoencoder 1"


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """A trained autoencoder of plain arrays; encoding and decoding need NumPy only.

    Attributes
    ----------
    mean, scale : array (d,) and number
        Samples are centred by the mean and divided by the scale.
    down, up : tuples of arrays
        Matrix and offset of each layer: (d, hidden), (hidden,), (hidden, dimension), (dimension,),
        and back.
    losses : array (epochs,)
        Mean squared error of a feature over each epoch, in units of scale^2; predicting the mean
        gives 1.
    """

    mean: Float32s
    scale: float
    down: tuple[Float32s, ...]
    up: tuple[Float32s, ...]
    losses: NDArray[np.float64]

    def __repr__(self) -> str:
        size = f"{self.features} features to {self.dimension}"
        return f"<autoencoder, {size}, error {self.losses[-1]:.3f}>"

    @property
    def features(self) -> int:
        return len(self.mean)

    @property
    def dimension(self) -> int:
        return int(self.down[2].shape[1])

    def encode(self, X: Any) -> Float32s:
        """The codes (n, dimension) of samples (n, d), in float32."""
        return _in_chunks(
            lambda some: _apply(self.down, (some - self.mean) / np.float32(self.scale)),
            X,
            self.features,
        )

    def decode(self, Z: Any) -> Float32s:
        """The samples (n, d) that codes (n, dimension) stand for, in float32."""
        return _in_chunks(
            lambda some: self.mean + np.float32(self.scale) * _apply(self.up, some),
            Z,
            self.dimension,
        )

    def save(self, path: str | Path) -> None:
        """Write a .npz file, all of it or nothing."""
        content = io.BytesIO()
        layers = {f"down{k}": part for k, part in enumerate(self.down)} | {
            f"up{k}": p for k, p in enumerate(self.up)
        }
        plain = {
            "format": np.array(_FORMAT),
            "mean": self.mean,
            "scale": np.array(self.scale),
            "losses": self.losses,
        }
        np.savez(content, allow_pickle=False, **plain, **layers)
        write_atomically(path, content.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Autoencoder:
        """Read what `save` wrote; codes come back bit for bit."""
        try:
            with np.load(path, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
        except FileNotFoundError:
            raise InputError(f"There is no file at {path}; check the path.") from None
        except Exception:  # NumPy raises half a dozen kinds
            found = {}
        if str(found.get("format")) != _FORMAT:
            raise InputError(f"{path} is not a saved autoencoder; give a file written by `save`.")
        try:
            down, up = (tuple(found[f"{half}{k}"] for k in range(4)) for half in ("down", "up"))
            loaded = cls(found["mean"], float(found["scale"]), down, up, found["losses"])
            if not loaded._fits():
                raise ValueError("shapes")
        except (KeyError, TypeError, ValueError, IndexError):
            raise InputError(
                f"{path} is damaged: parts of the autoencoder are missing or were changed."
            ) from None
        return loaded

    def _fits(self) -> bool:
        d, code, hidden = self.features, self.dimension, len(self.down[1])
        shapes = [
            (d, hidden),
            (hidden,),
            (hidden, code),
            (code,),
            (code, hidden),
            (hidden,),
            (hidden, d),
            (d,),
        ]
        arrays = [self.mean, *self.down, *self.up]
        proper = all(part.dtype == np.float32 and bool(np.isfinite(part).all()) for part in arrays)
        return proper and self.scale > 0 and [part.shape for part in arrays] == [(d,), *shapes]


def fit(
    X: Any,
    dimension: int = 32,
    seed: int = 0,
    *,
    hidden: int = 256,
    epochs: int = 10,
    batch_size: int = 256,
    learning_rate: float = 2e-3,
    callback: Callable[[int, float], None] | None = None,
) -> Autoencoder:
    """Train an autoencoder on samples X (n, d) with Adam; this needs the extra `learn` (torch).

    The paper reduces MNIST this way, trained on half of the training samples, but does not name its
    network; this one is ours. Training uses one thread, so the same samples, options and seed give
    the same bits on one machine whatever its number of cores.

    Parameters
    ----------
    X : numbers (n, d), one sample per row
    dimension : of the code
    hidden : width of the hidden layers
    epochs, batch_size : passes over the data, and samples per step
    learning_rate : of Adam; it falls linearly to a tenth
    callback : called with the number of each epoch and its loss

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 2)) @ np.ones((2, 5))
    >>> fit(X, dimension=1, hidden=8, epochs=2).encode(X).shape  # doctest: +SKIP
    (200, 1)
    """
    samples = _samples(X, None)
    d, dimension, hidden = (
        samples.shape[1],
        check_whole(dimension, "dimension"),
        check_whole(hidden, "hidden"),
    )
    epochs, batch_size, seed = (
        check_whole(epochs, "epochs"),
        check_whole(batch_size, "batch_size"),
        check_whole(seed, "seed", 0),
    )
    if (
        isinstance(learning_rate, bool)
        or not isinstance(learning_rate, int | float)
        or not 0 < learning_rate < 1
    ):
        raise InputError(f"learning_rate is {learning_rate!r}; give a number between 0 and 1.")
    mean = samples.mean(axis=0, dtype=np.float64)
    scale = float(np.sqrt(np.mean((samples - mean) ** 2))) or 1.0
    centred = ((samples - mean) / scale).astype(np.float32)
    rng = np.random.default_rng(seed)
    widths = (d, hidden, dimension, hidden, d)
    start = [part for ins, outs in pairwise(widths) for part in _layer(rng, ins, outs)]
    trained, losses = _train(
        centred, start, epochs, batch_size, float(learning_rate), rng, callback or (lambda *_: None)
    )
    return Autoencoder(
        mean.astype(np.float32), scale, tuple(trained[:4]), tuple(trained[4:]), np.array(losses)
    )


def _layer(rng: np.random.Generator, ins: int, outs: int) -> tuple[Float32s, Float32s]:
    """He initialisation: variance 2 / ins keeps the scale through a ReLU."""
    return (rng.standard_normal((ins, outs)) * np.sqrt(2 / ins)).astype(np.float32), np.zeros(
        outs, dtype=np.float32
    )


def _train(
    samples: Float32s,
    start: list[Float32s],
    epochs: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
    callback: Callable[[int, float], None],
) -> tuple[list[Float32s], list[float]]:
    try:
        import torch
    except ImportError:
        raise InputError("An autoencoder needs torch; run: pip install 'fedwad[learn]'.") from None
    with single_threaded_torch():  # sums over several threads would depend on their number
        data = torch.from_numpy(samples)
        parts = [torch.from_numpy(part.copy()).requires_grad_() for part in start]
        steps = epochs * -(-len(samples) // batch_size)
        optimizer = torch.optim.Adam(parts, lr=learning_rate)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: 1 - 0.9 * min(step / steps, 1.0)
        )
        losses = []
        for epoch in range(1, epochs + 1):
            total = 0.0
            ends = range(batch_size, len(samples), batch_size)
            for rows in np.split(rng.permutation(len(samples)), ends):
                chosen = data[torch.from_numpy(rows)]
                inner = torch.relu(chosen @ parts[0] + parts[1]) @ parts[2] + parts[3]
                outer = torch.relu(inner @ parts[4] + parts[5]) @ parts[6] + parts[7]
                loss = ((outer - chosen) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                total += float(loss.detach()) * len(rows)
            losses.append(total / len(samples))
            callback(epoch, losses[-1])
        return [part.detach().numpy().copy() for part in parts], losses


def _apply(layers: tuple[Float32s, ...], samples: Float32s) -> Float32s:
    first, offset, second, last = layers
    return np.asarray(np.maximum(samples @ first + offset, 0) @ second + last, dtype=np.float32)


def _in_chunks(work: Callable[[Float32s], Float32s], X: Any, width: int) -> Float32s:
    samples = _samples(X, width)
    parts = [
        work(samples[at : at + _CHUNK].astype(np.float32)) for at in range(0, len(samples), _CHUNK)
    ]
    return np.concatenate(parts)


def _samples(X: Any, width: int | None) -> NDArray[Any]:
    samples = np.asarray(X)
    if samples.ndim != 2 or 0 in samples.shape or samples.dtype.kind not in "biuf":
        raise InputError(
            f"X has shape {samples.shape} of {samples.dtype}; give numbers (n, d), one sample per"
            " row."
        )
    if width is not None and samples.shape[1] != width:
        raise InputError(
            f"X has {samples.shape[1]} features where {width} are expected; give those."
        )
    if not np.isfinite(samples).all():
        raise InputError("X holds NaN or infinite values; remove or fill them first.")
    return samples
