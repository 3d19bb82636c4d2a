"""Why replies are not aggregated before sight: the sum over three clients gives records away just
as well."""

import numpy as np
import pytest

from fedwad.audit import ReconstructionScorer
from fedwad.audit.differencing import difference_slabs
from fedwad.audit.session import AttackSession
from fedwad.federation import AtomsRequest, CellSums, Client, Dataset, Policy
from fedwad.transport import Measure


class Aggregated(AttackSession):
    """Three clients of which a server sees nothing but the sum, as perfect secure aggregation would
    have it."""

    def __init__(self, parts, floor):
        policy = Policy(["columns", "atoms"], min_cell_size=floor, rounding=0.0)
        super().__init__(Dataset(Measure(np.concatenate(parts))), policy, {"columns", "atoms"})
        self._clients = [Client(Dataset(Measure(part)), policy) for part in parts]

    def ask(self, request):
        if not isinstance(request, AtomsRequest):
            return super().ask(request)
        self.answered += 1
        replies = [client.answer(request) for client in self._clients]
        shares = [reply.count / self.count for reply in replies]
        total = {
            name: sum(
                share * getattr(reply, name) for share, reply in zip(shares, replies, strict=True)
            )
            for name in ("masses", "offsets", "squares", "overlap")
        }
        duals = [reply.dual for reply in replies]
        total["dual"] = (
            None
            if None in duals
            else sum(share * dual for share, dual in zip(shares, duals, strict=True))
        )
        return CellSums(count=self.count, min_cell_size=1, **total)


@pytest.mark.parametrize(("floor", "least"), [(1, 200), (10, 30)])
def test_sums_over_three_clients_give_records_away(floor, least):
    points = np.random.default_rng(0).standard_normal((300, 2))
    found = difference_slabs(Aggregated(np.split(points, 3), floor), np.random.default_rng(0))
    assert ReconstructionScorer(points).score(found).exact >= least
