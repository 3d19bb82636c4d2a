"""Attacks on block means: solving them for the rows of a block, and asking again and again."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import BlocksReply, BlocksRequest
from fedwad.ot import Floats, directions, segments_of

__all__ = ["average_blocks", "solve_block", "solve_blocks"]

_REPEATS = 20
_MAX_STEPS, _STARTS = 40, 3
_MAX_WORK = 2e9  # multiplications for all blocks, to bound the time
_MAX_SYSTEM = 4e5  # equations times unknowns of a block that is solved for all its numbers
_SOLVED = 1e-9  # squared misfit of a solution


def solve_blocks(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Rows that agree with all numbers of their block, for each block of one reply."""
    reply = session.ask(BlocksRequest())
    return session.no_guesses if not isinstance(reply, BlocksReply) else _solve(reply, rng)


def average_blocks(session: AttackSession, rng: np.random.Generator) -> Floats:
    """The same from the average of twenty replies, which are rounded at random."""
    replies = [session.ask(BlocksRequest()) for _ in range(_REPEATS)]
    answers = [reply for reply in replies if isinstance(reply, BlocksReply)]
    if not answers or len({reply.means.shape for reply in answers}) > 1:
        return session.no_guesses
    first = answers[0]
    means = np.mean([reply.means for reply in answers], axis=0)
    return _solve(BlocksReply(first.rows, first.counts, means, first.centre, first.scale), rng)


def _solve(reply: BlocksReply, rng: np.random.Generator) -> Floats:
    """Rows of all blocks in the units of the data; of large blocks only two moments agree."""
    sizes = np.repeat(reply.rows * 2 ** np.arange(len(reply.counts)), reply.counts)
    systems = sizes * len(reply.centre) * reply.means.shape[1]
    solvable = int((systems <= _MAX_SYSTEM).sum()) or 1
    work = float(systems[0]) * reply.means.shape[1] * _STARTS * solvable
    steps = int(np.clip(_MAX_WORK / work, 4, _MAX_STEPS))
    guesses = [
        solve_block(means, int(size), reply.scale, rng, steps)
        if system <= _MAX_SYSTEM
        else _draw_with_two_moments(means, int(size), len(reply.centre), rng)
        for size, system, means in zip(sizes, systems, reply.means, strict=True)
    ]
    return np.asarray(reply.centre + reply.scale * np.concatenate(guesses))


def _draw_with_two_moments(means: Floats, size: int, d: int, rng: np.random.Generator) -> Floats:
    """Random standardised rows with the block's mean and mean square of each feature."""
    rows = rng.standard_normal((size, d))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    std = np.sqrt(np.maximum(means[d : 2 * d] - means[:d] ** 2, 0.0))
    return np.asarray(means[:d] + std * rows)


def solve_block(
    means: Floats, size: int, scale: Floats, rng: np.random.Generator, steps: int = _MAX_STEPS
) -> Floats:
    """Standardised rows of one block with these means, (size, d): the best of some starts.

    Each step is the smallest change of the rows after which all means agree to first order. It is
    damped if it goes too far.
    """
    smallest, best = np.inf, np.empty((0, 0))
    for _ in range(_STARTS):
        start = means[: len(scale)] + rng.standard_normal((size, len(scale)))
        rows, misfit = _descend(start, means, scale, steps)
        if misfit < smallest:
            smallest, best = misfit, rows
        if smallest < _SOLVED:
            break
    return best


def _descend(rows: Floats, means: Floats, scale: Floats, steps: int) -> tuple[Floats, float]:
    """The rows after some damped Gauss-Newton steps, and their squared misfit."""
    values, slopes = _means_and_slopes(rows, scale)
    misfit, damping = float(((values - means) ** 2).sum()), 1e-2
    for _ in range(steps):
        if misfit < _SOLVED * 1e-12:
            break
        gram = slopes @ slopes.T
        gram[np.diag_indices_from(gram)] += damping * max(float(np.trace(gram)) / len(gram), 1e-12)
        try:
            step = slopes.T @ np.linalg.solve(gram, means - values)
        except np.linalg.LinAlgError:  # singular, because the damping became too small
            damping *= 10
            continue
        new_rows = rows + step.reshape(rows.shape)
        new_values, new_slopes = _means_and_slopes(new_rows, scale)
        new_misfit = float(((new_values - means) ** 2).sum())
        if new_misfit < misfit:
            rows, values, slopes, misfit = new_rows, new_values, new_slopes, new_misfit
            damping *= 0.1
        else:
            damping *= 10
    return rows, misfit


def _means_and_slopes(rows: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Means over these standardised rows of all K public functions, and their derivatives.

    The functions are those of a blocks request. The derivatives are (K, rows x d).
    """
    size, d = rows.shape
    values, slopes = [], []
    powers = sum(name != "projection" for name, _ in segments_of(d))
    for power in range(1, powers + 1):
        values.append((rows**power).mean(axis=0))
        slope = np.zeros((d, size, d))
        feature = np.arange(d)
        slope[feature, :, feature] = (power * rows ** (power - 1) / size).T
        slopes.append(slope.reshape(d, size * d))
    signs = scale[:, None] / np.sqrt((scale**2).mean()) * directions(d)
    along = rows @ signs
    values.append((along**2).mean(axis=0))
    slopes.append(
        np.einsum("ip,kp->pik", 2 * along / size, signs).reshape(signs.shape[1], size * d)
    )
    return np.concatenate(values), np.concatenate(slopes)
