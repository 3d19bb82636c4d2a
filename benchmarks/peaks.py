"""What share of this machine's peak each numeric kernel reaches, with the peaks of the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fedwad.statistics.blocking import block_means
from fedwad.statistics.cells import nearest
from fedwad.transport import Measure
from fedwad.transport.costs import ground_cost
from fedwad.transport.nearly import near_squares
from fedwad.transport.plans import row_potentials


def _least(work: Callable[[], Any], repeats: int = 5) -> float:
    """The least processor seconds of some runs."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def peaks() -> Iterator[dict[str, Any]]:
    """Kernels beside the rate of a matrix product or of reading memory, one thread.

    The work that is counted is the least that the kernel needs: each number read or written once,
    and a multiplication and an addition for each term of a product.
    """
    rng = np.random.default_rng(0)
    with threadpool_limits(1):
        square = rng.random((3000, 3000))
        gemm = 2 * 3000**3 / _least(lambda: square @ square, 3)
        long = rng.random(1 << 25)
        memory = long.nbytes / _least(long.max)
        yield {"kernel": "matrix product, 3000 x 3000", "rate": f"{gemm / 1e9:.1f} GFLOP/s"}
        yield {"kernel": "reading 256 MB", "rate": f"{memory / 1e9:.1f} GB/s"}

        def row(kernel: str, work: Callable[[], Any], flops: float, numbers: float) -> Any:
            seconds = _least(work)
            found = {"kernel": kernel, "ms": 1e3 * seconds}
            by_product, by_memory = flops / gemm / seconds, 8 * numbers / memory / seconds
            product = by_product > by_memory
            share = max(by_product, by_memory)
            return found | {"peak": "product" if product else "memory", "share": f"{share:.0%}"}

        for n, m, d in ((3000, 3000, 784), (10000, 1000, 50), (100000, 10, 2)):
            x, y = rng.random((n, d)), rng.random((m, d))
            work = lambda x=x, y=y: ground_cost(x, y)  # noqa: E731
            yield row(f"cost, {n} x {m}, d={d}", work, 2.0 * n * m * d, n * m + n * d)
        for n, m in ((1000000, 10), (20000, 1000)):
            cost, g = rng.random((n, m)), rng.random(m)
            work = lambda cost=cost, g=g: row_potentials(cost, g)  # noqa: E731
            yield row(f"potentials, {n} x {m}", work, 0.0, n * m)
        for n, k, d in ((100000, 10, 20), (10000, 100, 200)):
            x, y = rng.random((n, d)), rng.random((k, d))
            work = lambda x=x, y=y: nearest(x, y)  # noqa: E731
            yield row(f"k-means pass, {n} x {d}, {k} cells", work, 2.0 * n * k * d, n * d)
        for n, d in ((100000, 20), (3000, 200)):
            x = rng.random((n, d))

            def work(x: Any = x) -> Any:
                return block_means(x, np.arange(len(x)), np.random.default_rng(0))

            yield row(f"block sums, {n} x {d}", work, 0.0, n * d)
        for n, d in ((400, 20), (1500, 20)):
            two = {k: Measure(rng.normal(size=(n, d))) for k in range(2)}
            list(near_squares(two, [(0, 1)]))  # compiles
            work = lambda two=two: list(near_squares(two, [(0, 1)]))  # noqa: E731
            yield row(f"auction, {n} x {n}", work, 2.0 * n * n * d, n * n)


if __name__ == "__main__":
    for one in peaks():
        print(one, flush=True)
