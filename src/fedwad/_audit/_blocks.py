"""Attacks on block means: solving them for the rows of a block, and asking again and again."""

from __future__ import annotations

import numpy as np

from fedwad._audit._session import AttackSession
from fedwad.federation import BlocksReply, BlocksRequest
from fedwad.ot import Floats, directions, segments_of

__all__ = ["average_blocks", "solve_block", "solve_blocks"]

_REPEATS = 20
_STEPS, _STARTS = 40, 3
_WORK = 2e9  # multiplications for all blocks, to bound the time
_LARGEST = 4e5  # equations times unknowns of a block; of larger ones two powers are solved
_SOLVED = 1e-9  # squared misfit


def solve_blocks(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Solve the means of each block for its rows: rows that agree with all of its numbers."""
    reply = session.ask(BlocksRequest())
    return session.no_guesses if not isinstance(reply, BlocksReply) else _solve(reply, rng)


def average_blocks(session: AttackSession, rng: np.random.Generator) -> Floats:
    """Ask twenty times, average what was rounded at random, and solve that."""
    replies = [session.ask(BlocksRequest()) for _ in range(_REPEATS)]
    found = [reply for reply in replies if isinstance(reply, BlocksReply)]
    if not found or len({reply.means.shape for reply in found}) > 1:
        return session.no_guesses
    first = found[0]
    means = np.mean([reply.means for reply in found], axis=0)
    return _solve(BlocksReply(first.rows, first.counts, means, first.centre, first.scale), rng)


def _solve(reply: BlocksReply, rng: np.random.Generator) -> Floats:
    sizes = np.repeat(reply.rows * 2 ** np.arange(len(reply.counts)), reply.counts)
    numbers = sizes * len(reply.centre) * reply.means.shape[1]
    solvable = int((numbers <= _LARGEST).sum()) or 1
    work = float(numbers[0]) * reply.means.shape[1] * _STARTS * solvable
    steps = int(np.clip(_WORK / work, 4, _STEPS))
    guesses = [
        solve_block(means, int(size), reply.scale, rng, steps)
        if number <= _LARGEST
        else _two_powers(means, int(size), len(reply.centre), rng)
        for size, number, means in zip(sizes, numbers, reply.means, strict=True)
    ]
    return np.asarray(reply.centre + reply.scale * np.concatenate(guesses))


def _two_powers(means: Floats, size: int, d: int, rng: np.random.Generator) -> Floats:
    """Random rows with the mean and the square of each feature."""
    rows = rng.standard_normal((size, d))
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    spread = np.sqrt(np.maximum(means[d : 2 * d] - means[:d] ** 2, 0.0))
    return np.asarray(means[:d] + spread * rows)


def solve_block(
    means: Floats, size: int, scale: Floats, rng: np.random.Generator, steps: int = _STEPS
) -> Floats:
    """Standardised rows with these means, (size, d): the best of some starts.

    Each step is the smallest change of the rows that agrees with all numbers to first order, damped
    where that is too far.
    """
    best, found = np.inf, np.empty((0, 0))
    for _ in range(_STARTS):
        start = means[: len(scale)] + rng.standard_normal((size, len(scale)))
        rows, misfit = _descend(start, means, scale, steps)
        if misfit < best:
            best, found = misfit, rows
        if best < _SOLVED:
            break
    return found


def _descend(rows: Floats, means: Floats, scale: Floats, steps: int) -> tuple[Floats, float]:
    values, slopes = _functions(rows, scale)
    misfit, damping = float(((values - means) ** 2).sum()), 1e-2
    for _ in range(steps):
        if misfit < _SOLVED * 1e-12:
            break
        gram = slopes @ slopes.T
        gram[np.diag_indices_from(gram)] += damping * max(float(np.trace(gram)) / len(gram), 1e-12)
        step = slopes.T @ np.linalg.solve(gram, means - values)
        tried = rows + step.reshape(rows.shape)
        new_values, new_slopes = _functions(tried, scale)
        new = float(((new_values - means) ** 2).sum())
        if new < misfit:
            rows, values, slopes, misfit = tried, new_values, new_slopes, new
            damping *= 0.1
        else:
            damping *= 10
    return rows, misfit


def _functions(rows: Floats, scale: Floats) -> tuple[Floats, Floats]:
    """Means of all functions over these standardised rows, and their derivatives, (K, rows d)."""
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
