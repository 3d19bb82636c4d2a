"""The budget of differential privacy that a client's policy grants, and what its ledger says is
left of it."""

from __future__ import annotations

import hashlib
import math

from fedwad.errors import PolicyError
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.privacy import composed, epsilon_of, mu_of

__all__ = ["BudgetAccountant", "guarantee_warning"]

_ROUNDING = 1e-9  # so that ten releases of a hundredth of the squared budget fit into a tenth of it


def guarantee_warning(ledger: Ledger, policy: Policy) -> str:
    """A sentence for those who open data to other questions after private releases of them; empty
    if they do not."""
    made = sum(entry.kind == "private" and entry.outcome == "spent" for entry in ledger.entries)
    if not made or not set(policy.allow) - {"describe", "private"}:
        return ""
    releases = f"{made} private release{'s' if made > 1 else ''}"
    when = (
        "has ended: other answers left too"
        if math.isinf(ledger.spent)
        else "ends with the first other answer"
    )
    return f"The ledger holds {releases}, and this policy allows other answers: the promise of privacy {when}."


class BudgetAccountant:
    """Pays for private releases out of what the policy grants, by lines in the ledger.

    The budget is that of the data for good: it counts all lines of the ledger, whichever process
    wrote them, and also those about earlier versions of the data, since a record may be in all of
    them.
    """

    def __init__(self, ledger: Ledger, policy: Policy, data: str) -> None:
        self._ledger, self._policy, self._data = ledger, policy, data

    @property
    def granted(self) -> float:
        """The largest cost of all releases together."""
        epsilon = self._policy.epsilon
        if epsilon is None:
            return 0.0
        return math.inf if math.isinf(epsilon) else mu_of(epsilon, self._policy.delta)

    def check(self, mu: float) -> None:
        """Raise PolicyError unless a release of this cost is within the budget."""
        granted = self.granted
        if granted == 0:
            raise PolicyError(
                "This client's policy grants no budget for private releases; it has no epsilon."
            )
        if math.isinf(granted):
            return
        spent = self._ledger.spent
        if math.isinf(spent):
            raise PolicyError(
                "This client's ledger holds answers without differential privacy, or lines that cannot be read, so"
                " nothing can be promised for its data any more."
            )
        if composed((spent, mu)) > granted * (1 + _ROUNDING):
            used = epsilon_of(spent, self._policy.delta)
            raise PolicyError(
                f"This release would go beyond the privacy budget of this client: epsilon = {self._policy.epsilon:g},"
                f" of which {used:.3g} is spent; ask for a release that was made before, or for a smaller epsilon."
            )

    def spend(self, mu: float) -> None:
        """Pay for a release: the line is on disk before this returns, and nothing private may
        happen before."""
        self.check(mu)
        self._ledger.record("private", "spent", data=self._data, mu=mu)

    def kept(self, request: bytes) -> bytes | None:
        """The release that this request led to before, about the same data; telling it again costs
        nothing."""
        return self._ledger.kept(self._key(request))

    def keep(self, request: bytes, reply: bytes) -> None:
        self._ledger.keep(self._key(request), reply)

    def _key(self, request: bytes) -> str:
        return hashlib.sha256(request + self._data.encode()).hexdigest()
