"""Attacks on releases under differential privacy, including the attacker of its definition.

That attacker knows all records but one. A mean without noise reveals the last one:
x_i = n mean - sum of the others. A noisy mean gives x_i + n noise, and a noisy histogram the bins
of x_i and noise. Three of the attacks therefore use all other records for each guess, which no
attack on another method may do.

Two more attacks give one record a label of another kind, or a byte that is no text. If it changed
how a whole column is read, it would change the contribution of every record. The noise of a
release hides the contribution of one record only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from fedwad.audit.score import Finding
from fedwad.audit.session import AttackSession, NothingToGuessFromError, attack
from fedwad.audit.summaries import draw_from_cells
from fedwad.errors import FedwadError
from fedwad.federation import (
    Client,
    Columns,
    Dataset,
    DescribeRequest,
    Policy,
    PrivateColumnsReply,
    PrivateColumnsRequest,
    PrivateReply,
    PrivateRequest,
    Reply,
    load_site_data,
)
from fedwad.privacy import DP, denoise
from fedwad.site.raw import as_dataset
from fedwad.transport import Floats, Measure


@attack("drawing from one release", "one release")
def draw_from_release(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from a release that spends the whole budget."""
    return draw_from_cells(session, denoise(_release(session)).summary, rng)


@attack("drawing from columns", "one release by columns")
def draw_from_columns(session: AttackSession, rng: np.random.Generator) -> Floats:
    """n draws from noisy histograms of columns that spend the whole budget."""
    counts, middles, width = _release_columns(session)
    shares = np.maximum(counts, 0.0) + 1e-12
    drawn = [rng.choice(middles, session.count, p=part / part.sum()) for part in shares]
    return np.array(drawn).T + width * (rng.random((session.count, session.features)) - 0.5)


@attack("columns, all others known", "one release by columns")
def subtract_known_rows(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Each record from histograms of columns and all other records: the bins that stand out."""
    counts, middles, width = _release_columns(session)
    bins = len(middles)
    start = middles[0] - width / 2
    codes = np.clip(((session.records - start) // width).astype(np.int64), 0, bins - 1)
    exact = np.array([np.bincount(column, minlength=bins) for column in codes.T])
    own = np.eye(bins)[codes]  # (n, d, bins): what each record adds itself
    rest = (counts - exact)[None] + own
    return np.asarray(middles[rest.argmax(axis=2)])


def _release_columns(session: AttackSession) -> tuple[Floats, Floats, float]:
    """Noisy counts (d, bins), and the middles of the bins with their width."""
    request = PrivateColumnsRequest.of(_guarantee(session), None)
    counts = session.require(request, PrivateColumnsReply).counts
    edges = request.edges[0]
    middles = (edges[1:] + edges[:-1]) / 2
    return counts.reshape(session.features, -1), middles, float(edges[1] - edges[0])


@attack("all other records known", "one release")
def subtract_known_records(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Each record from one release and all other records."""
    return _subtract_others(session, [_mean(_release(session))])


@attack("averaging, all others known", "twenty releases")
def average_releases(session: AttackSession, rng: np.random.Generator, repeats: int = 20) -> Floats:
    """Each record from twenty releases of different clip norms, and all other records."""
    means: list[Floats] = []
    with suppress(NothingToGuessFromError):
        for k in range(repeats):
            means += [_mean(_release(session, 1 + 1e-6 * k))]
    return _subtract_others(session, means) if means else session.no_guesses


def _guarantee(session: AttackSession, clip_factor: float = 1.0, unlimited: float = 100.0) -> DP:
    """One that spends the whole budget.

    Where the policy sets no limit, epsilon is `unlimited`.
    """
    epsilon = session.policy.epsilon
    if epsilon is None or math.isinf(epsilon):
        epsilon = unlimited
    return DP(epsilon, delta=session.policy.delta, clip_norm=session.clip_norm * clip_factor)


def _release(session: AttackSession, clip_factor: float = 1.0) -> PrivateReply:
    """A release that spends the whole budget."""
    return session.require(PrivateRequest.of(_guarantee(session, clip_factor)), PrivateReply)


def _mean(reply: PrivateReply) -> Floats:
    return np.asarray(reply.origin + reply.clip_norm * reply.first_mean)


def _subtract_others(session: AttackSession, means: list[Floats]) -> Floats:
    """Each record: n times the mean of these noisy means, less all other records."""
    others = session.records.sum(axis=0) - session.records
    return np.asarray(session.count * np.mean(means, axis=0) - others)


#: Labels that are neither ordinary words nor integers in range.
ODD_LABELS: tuple[object, ...] = ("?", "", None, float("nan"), 1.5, 10**30, "two\nlines")


def count_moved_by_one_label(data: Dataset, policy: Policy) -> Finding:
    """How many contributions to a release by class one odd label moves, beyond its own.

    All contributions count if the public description changes with the label. Seven odd labels are
    tried.
    """
    answered, moved, count = 0, 0, len(data.measure)
    names: list[object] = [] if data.labels is None else data.labels.tolist()
    try:
        unchanged = _ask_client(data.measure, names, policy)
        for odd in ODD_LABELS:
            changed = _ask_client(data.measure, [*names[:-1], odd], policy)
            answered += 1
            moved = max(moved, _count_moved(unchanged, changed, len(names)))
    except FedwadError as error:
        return Finding(moved, count, answered, str(error))
    return Finding(moved, count, answered)


_ODD_BYTE = b"\xe9"  # no UTF-8, and a letter in most older encodings


def count_moved_by_one_byte(file: Path, columns: Columns, policy: Policy) -> Finding:
    """How many rows of a text file are read otherwise after one byte of the last row changed.

    All count if the file is then read with another number of rows. If it cannot be read at all, no
    row is moved, but whether the site starts tells something about that one row.
    """
    content = file.read_bytes().rstrip(b"\r\n")
    start = content.rfind(b"\n") + 1
    changed = content[:start] + _ODD_BYTE + content[start:]
    with TemporaryDirectory() as folder:
        found: list[Floats] = []
        for name, text in (("before", content), ("after", changed)):
            path = Path(folder) / f"{name}{file.suffix}"
            path.write_bytes(text)
            try:
                data = load_site_data(path, policy, columns)
            except FedwadError as error:
                if not found:
                    return Finding(refused=str(error))
                return Finding(
                    0,
                    len(found[0]),
                    1,
                    words="nothing was reconstructed, but after one byte of one record changed the"
                    " site does not start, which no noise hides; name a schema file (--schema)"
                    " whose columns accept gaps",
                )
            found.append(as_dataset(data, None).measure.points)
    before, after = found
    moved = len(before)
    if before.shape == after.shape:
        moved = int((before[:-1] != after[:-1]).any(axis=1).sum())
    words = (
        f"one byte of one record changes how {moved} of {len(before)} records are read, which the"
        " noise does not cover; no record was reconstructed"
    )
    return Finding(moved, len(before), 2, words=words if moved else "")


def _ask_client(measure: Measure, names: Sequence[object], policy: Policy) -> tuple[Reply, Reply]:
    """What a site with these labels says about itself, and its release by class."""
    labels = np.empty(len(names), dtype=object)
    labels[:] = names
    client = Client(Dataset(Measure(measure.points), labels), policy)
    largest_norm = float(np.sqrt((measure.points**2).sum(axis=1)).max()) or 1.0
    guarantee = DP(
        float(policy.epsilon or 1.0),
        clip_norm=largest_norm,
        delta=policy.delta,
        labels=policy.label_names,
    )
    return client.answer(DescribeRequest()), client.answer(PrivateRequest.of(guarantee))


def _count_moved(
    unchanged: tuple[Reply, Reply], changed: tuple[Reply, Reply], count: int, deviations: int = 8
) -> int:
    """How many of `count` contributions differ between two releases by more than chance.

    The changed record may move one contribution out of a class and one into another.

    A change of more standard deviations of the noise than these is not chance.
    """
    if unchanged[0] != changed[0]:
        return count
    assert isinstance(unchanged[1], PrivateReply)  # noqa: S101
    assert isinstance(changed[1], PrivateReply)  # noqa: S101
    change: Floats = np.abs(unchanged[1].masses - changed[1].masses)
    chance = deviations * np.sqrt(2.0) * float(unchanged[1].noise[2])
    beyond = float(np.maximum(change - chance, 0.0).sum()) - 2.0 / count
    return int(np.floor(count * max(0.0, beyond)))
