"""Tomography: fit the data to many replies about the same client.

The server chooses a plane through the data and sends supports on lines in it, one direction after
another. The optimal plan to such a support sorts the records along the line, and a cell holds n / S
consecutive records. In the plane this is a problem with 2 n unknowns: points are moved until the
means of their cells agree with the replies, first by averaged projections and then by damped
Gauss-Newton steps. If the points in the plane are right, the members of every cell are known. Then
*all* features follow from linear equations: a hundred queries give thousands of equations for n
unknown records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedwad.audit.session import AttackSession, attack, need
from fedwad.transport import Floats, Measure


@dataclass(frozen=True)
class _Projections:
    """Directions (L, 2) in the plane, cell means along them (L, S), and the number of records n."""

    directions: Floats
    means: Floats
    count: int

    def assign_cells(self, points: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Records in the order of each direction, and the cell of each record: (L, n) both."""
        order = np.argsort(points @ self.directions.T, axis=0, kind="stable").T
        cells = np.empty_like(order)
        size = self.count // self.means.shape[1]
        np.put_along_axis(
            cells, order, np.broadcast_to(np.arange(self.count) // size, order.shape), axis=1
        )
        return order, cells

    def residuals(self, points: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Observed minus fitted cell means (L, S), and the cell of each record (L, n)."""
        order, cells = self.assign_cells(points)
        along = np.take_along_axis((points @ self.directions.T).T, order, axis=1)
        return self.means - along.reshape(*self.means.shape, -1).mean(axis=2), cells


@attack("tomography", "rounds to supports on lines in one plane")
def tomography(session: AttackSession, rng: np.random.Generator, max_cell: int = 40) -> Floats:
    """Query lines in many directions of one plane, with the largest support that divides n.

    Cells of more than `max_cell` records were never reconstructed.
    """
    count = session.count
    limit = min(session.max_support, count // 2)
    size = next((s for s in range(limit, 0, -1) if count % s == 0), 1)
    if size < max(2, session.policy.min_support) or count // size > max_cell:
        # A fit is hopeless: the cell means of one round are the guesses.
        size = min(session.max_support, max(1, session.policy.min_support))
        support = np.random.default_rng(0).standard_normal((size, session.features))
        return need(session.cell_means(Measure(support)))
    mean, scale = session.estimate_moments()
    plane = np.ones((1, 1))
    if session.features > 1:
        plane = np.linalg.qr(rng.standard_normal((session.features, 2)))[0].T
    directions, replies = _query_lines(session, plane, mean, float(scale.mean()), size)
    if not len(replies):
        return session.no_guesses
    if session.features < 2 or len(replies) < 3:
        return np.asarray(mean + np.concatenate(replies))
    projections = _Projections(
        directions, np.einsum("lsd,ld->ls", replies, directions @ plane), count
    )
    points = _fit_points(projections, rng)
    if session.features == 2:  # the plane contains all records
        return np.asarray(mean + points @ plane)
    return np.asarray(mean + _solve_records(projections, points, replies))


def _query_lines(
    session: AttackSession, plane: Floats, mean: Floats, scale: float, size: int, most: int = 120
) -> tuple[Floats, Floats]:
    """Directions in the plane (L, 2) that were answered, and centred cell means (L, S, d)."""
    count = max(1, session.queries(most, reserved=1))
    angles = np.pi * (np.arange(count) + 0.5) / count
    directions = np.column_stack([np.cos(angles), np.sin(angles)])[:, : len(plane)]
    along = np.arange(size) - (size - 1) / 2
    replies = []
    for direction in directions:
        means = session.cell_means(Measure(mean + np.outer(along, direction @ plane) * scale))
        if means is None:
            break
        replies.append(means - mean)
    return directions[: len(replies)], np.array(replies)


def _fit_points(
    projections: _Projections,
    rng: np.random.Generator,
    starts: int = 6,
    averaging_steps: int = 300,
    newton_steps: int = 60,
    small_cell: int = 6,
    tolerance: float = 1e-9,
) -> Floats:
    """Points in the plane whose cell means agree best with the replies, from a few starts.

    For cells of more than `small_cell` records a second start never helped.
    """
    scale = float(projections.means.std()) or 1.0
    best, smallest = None, np.inf
    has_small_cells = projections.count <= small_cell * projections.means.shape[1]
    for _ in range(starts if has_small_cells else 1):
        points = scale * rng.standard_normal((projections.count, 2))
        for _ in range(averaging_steps):
            residuals, cells = projections.residuals(points)
            back = np.take_along_axis(residuals, cells, axis=1)
            points = points + 2 / len(projections.directions) * back.T @ projections.directions
        for _ in range(newton_steps):
            residuals, cells = projections.residuals(points)
            misfit = float(np.sqrt((residuals**2).mean()))
            if misfit < smallest:
                best, smallest = points, misfit
            if misfit <= tolerance * scale:
                return points
            points = points + _newton_step(projections, residuals, cells)
    assert best is not None  # noqa: S101
    return best


def _newton_step(
    projections: _Projections, residuals: Floats, cells: NDArray[np.int64], damping: float = 0.02
) -> Floats:
    """A damped Gauss-Newton step with the members of each cell fixed."""
    from scipy import sparse

    n, cells_per_line = projections.count, projections.means.shape[1]
    means = _cell_means(cells, cells_per_line)
    slopes = [np.repeat(axis, cells_per_line) for axis in projections.directions.T]
    matrix = sparse.hstack([sparse.diags(slope) @ means for slope in slopes], format="csr")
    normal = (matrix.T @ matrix).toarray()
    normal[np.diag_indices_from(normal)] += damping * np.trace(normal) / (2 * n)
    return np.asarray(np.linalg.solve(normal, matrix.T @ residuals.ravel()).reshape(2, n).T)


def _solve_records(projections: _Projections, points: Floats, replies: Floats) -> Floats:
    """Records from the means of cells whose members are known, by least squares."""
    matrix = _cell_means(projections.assign_cells(points)[1], projections.means.shape[1])
    means = replies.reshape(-1, replies.shape[2])
    records, *_ = np.linalg.lstsq((matrix.T @ matrix).toarray(), matrix.T @ means, rcond=1e-12)
    return np.asarray(records)


def _cell_means(cells: NDArray[np.int64], cells_per_line: int) -> Any:
    """The sparse matrix (L S, n) that takes records to the means of their cells (L, n)."""
    from scipy import sparse

    lines, n = cells.shape
    rows = (np.arange(lines)[:, None] * cells_per_line + cells).ravel()
    values = np.full(cells.size, cells_per_line / n)  # of a record in the mean of its cell
    columns = np.tile(np.arange(n), lines)
    return sparse.csr_matrix((values, (rows, columns)), shape=(lines * cells_per_line, n))
