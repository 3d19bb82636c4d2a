"""A small autoencoder, which maps many features to a few, trained on one machine.

The encoder maps a sample x to its code z, and the decoder maps a code back to a sample. Each has
two fully connected layers with a ReLU between them. B1, B2, C1, C2 are matrices and b1, b2, c1, c2
offsets:

    encode(x) = B2 max(0, B1 x' + b1) + b2,    x' = (x - mean) / scale,
    decode(z) = mean + scale y',               y' = C2 max(0, C1 z + c1) + c2.

Training minimises the mean of |x' - y'|^2 with z = encode(x). `mean` is the mean sample. `scale` is
one number, the root mean square of x - mean over all features. As all features are divided by the
same number, ratios of distances between samples stay the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad._checks import check_integer, check_number
from fedwad._files import read_arrays, write_arrays
from fedwad.errors import InputError

Float32s = NDArray[np.float32]

_CHUNK = 4096  # samples that are encoded or decoded at a time, which saves memory
_FORMAT = "fedwad autoencoder 1"


@dataclass(frozen=True, eq=False)
class Autoencoder:
    """A trained autoencoder of plain arrays; encoding and decoding need NumPy only.

    Attributes
    ----------
    mean, scale : array (d,) and number
        Samples are centred by the mean and divided by the scale.
    down, up : tuples of arrays
        Matrix and offset of each layer. `down` is the encoder, with shapes (d, hidden), (hidden,),
        (hidden, dimension) and (dimension,). `up` is the decoder, from dimension to hidden to d.
    losses : array (epochs,)
        Mean squared error of a feature in each epoch, in units of scale^2. Predicting the mean
        would give 1.
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
        return _apply_in_chunks(
            lambda chunk: _run_layers(self.down, (chunk - self.mean) / np.float32(self.scale)),
            X,
            self.features,
        )

    def decode(self, Z: Any) -> Float32s:
        """The samples (n, d) that codes (n, dimension) stand for, in float32."""
        return _apply_in_chunks(
            lambda chunk: self.mean + np.float32(self.scale) * _run_layers(self.up, chunk),
            Z,
            self.dimension,
        )

    def save(self, path: str | Path) -> None:
        """Write a .npz file atomically: the whole file, or none of it."""
        arrays: dict[str, Any] = {"format": _FORMAT, "scale": self.scale}
        arrays |= {"mean": self.mean, "losses": self.losses}
        for name, layers in (("down", self.down), ("up", self.up)):
            arrays |= {f"{name}{k}": part for k, part in enumerate(layers)}
        write_arrays(path, arrays)

    @classmethod
    def load(cls, path: str | Path) -> Autoencoder:
        """Read what `save` wrote; the loaded autoencoder gives exactly the same codes."""
        arrays = read_arrays(path)
        if str(arrays.get("format")) != _FORMAT:
            raise InputError(
                f"{path} is not a saved autoencoder; give a file written by `save`.", "wrong-format"
            )
        try:
            down, up = (tuple(arrays[f"{name}{k}"] for k in range(4)) for name in ("down", "up"))
            loaded = cls(arrays["mean"], float(arrays["scale"]), down, up, arrays["losses"])
            if not loaded._is_valid():
                raise ValueError("shapes or values do not fit")
        except (KeyError, TypeError, ValueError, IndexError):
            raise InputError(
                f"{path} is damaged: parts of the autoencoder are missing or were changed.",
                "damaged-content",
            ) from None
        return loaded

    def _is_valid(self) -> bool:
        """Whether all arrays have the right shapes and finite numbers in float32."""
        d, hidden = self.features, len(self.down[1])
        widths = (d, hidden, self.dimension, hidden, d)
        shapes = [shape for ins, outs in pairwise(widths) for shape in ((ins, outs), (outs,))]
        arrays = [self.mean, *self.down, *self.up]
        finite = all(part.dtype == np.float32 and bool(np.isfinite(part).all()) for part in arrays)
        return finite and self.scale > 0 and [part.shape for part in arrays] == [(d,), *shapes]


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
    """Train an autoencoder on samples X (n, d) with Adam; this needs the extra `learn` (PyTorch).

    The paper reduces MNIST by an autoencoder of half of the training samples. It does not describe
    the network; this one is ours. Training uses one thread, so on one machine the same samples,
    options and seed give the same bits.

    Parameters
    ----------
    X : numbers (n, d), one sample per row
    dimension : length of a code
    seed : of the first weights and of the order of samples
    hidden : width of the hidden layers
    epochs, batch_size : passes over the data, and samples per step
    learning_rate : of Adam at first; it falls linearly to a tenth of this
    callback : called with the number of each epoch and its loss

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((200, 2)) @ np.ones((2, 5))
    >>> fit(X, dimension=1, hidden=8, epochs=2).encode(X).shape  # doctest: +SKIP
    (200, 1)
    """
    samples = _check_samples(X, None)
    d, dimension = samples.shape[1], check_integer(dimension, "dimension")
    hidden, epochs = check_integer(hidden, "hidden"), check_integer(epochs, "epochs")
    batch_size, seed = check_integer(batch_size, "batch_size"), check_integer(seed, "seed", 0)
    if not 0 < check_number(learning_rate, "learning_rate") < 1:
        raise InputError(
            f"learning_rate is {learning_rate!r}; give a number between 0 and 1.", "bad-option"
        )
    mean = samples.mean(axis=0, dtype=np.float64)
    scale = float(np.sqrt(np.mean((samples - mean) ** 2))) or 1.0
    centred = ((samples - mean) / scale).astype(np.float32)
    rng = np.random.default_rng(seed)
    widths = (d, hidden, dimension, hidden, d)
    initial = [part for ins, outs in pairwise(widths) for part in _new_layer(rng, ins, outs)]
    report = callback or (lambda *_: None)
    trained, losses = _train(
        centred, initial, epochs, batch_size, float(learning_rate), rng, report
    )
    return Autoencoder(
        mean.astype(np.float32), scale, tuple(trained[:4]), tuple(trained[4:]), np.array(losses)
    )


def _new_layer(rng: np.random.Generator, ins: int, outs: int) -> tuple[Float32s, Float32s]:
    """Matrix and offset of a new layer, by He initialisation.

    Entries have the variance 2 / ins, with which the ReLU keeps the scale of samples.
    """
    matrix = (rng.standard_normal((ins, outs)) * np.sqrt(2 / ins)).astype(np.float32)
    return matrix, np.zeros(outs, dtype=np.float32)


def _train(
    samples: Float32s,
    initial: list[Float32s],
    epochs: int,
    batch_size: int,
    learning_rate: float,
    rng: np.random.Generator,
    callback: Callable[[int, float], None],
) -> tuple[list[Float32s], list[float]]:
    """Train the layers from their initial values; return them and the loss of each epoch."""
    try:
        import torch

        from fedwad.learning.local import single_threaded_torch
    except ImportError:
        raise InputError(
            "An autoencoder needs PyTorch; run: pip install 'fedwad[learn]'.", "missing-package"
        ) from None
    with single_threaded_torch():  # sums over several threads would depend on their number
        data = torch.from_numpy(samples)
        parts = [torch.from_numpy(part.copy()).requires_grad_() for part in initial]
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
                codes = torch.relu(chosen @ parts[0] + parts[1]) @ parts[2] + parts[3]
                decoded = torch.relu(codes @ parts[4] + parts[5]) @ parts[6] + parts[7]
                loss = ((decoded - chosen) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                schedule.step()
                total += float(loss.detach()) * len(rows)
            losses.append(total / len(samples))
            callback(epoch, losses[-1])
        return [part.detach().numpy().copy() for part in parts], losses


def _run_layers(layers: tuple[Float32s, ...], samples: Float32s) -> Float32s:
    """The output of two layers, with a ReLU between them."""
    matrix1, offset1, matrix2, offset2 = layers
    hidden = np.maximum(samples @ matrix1 + offset1, 0)
    return np.asarray(hidden @ matrix2 + offset2, dtype=np.float32)


def _apply_in_chunks(function: Callable[[Float32s], Float32s], X: Any, width: int) -> Float32s:
    """Apply the function to a few thousand samples at a time."""
    samples = _check_samples(X, width)
    parts = [
        function(samples[start : start + _CHUNK].astype(np.float32))
        for start in range(0, len(samples), _CHUNK)
    ]
    return np.concatenate(parts)


def _check_samples(X: Any, width: int | None) -> NDArray[Any]:
    """X as an array; InputError unless it has finite numbers, and `width` columns if given."""
    samples = np.asarray(X)
    if samples.ndim != 2 or 0 in samples.shape or samples.dtype.kind not in "biuf":
        raise InputError(
            f"X has shape {samples.shape} of {samples.dtype}; give numbers (n, d), one sample per"
            " row.",
            "wrong-shape",
        )
    if width is not None and samples.shape[1] != width:
        raise InputError(
            f"X has {samples.shape[1]} features where {width} are expected; give {width}.",
            "wrong-shape",
        )
    if not np.isfinite(samples).all():
        raise InputError(
            "X holds NaN or infinite values; remove or fill them first.", "infinite-values"
        )
    return samples
