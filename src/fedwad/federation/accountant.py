"""The budget of differential privacy that a policy grants, and how much of it is left."""

from __future__ import annotations

import math

from fedwad.errors import PolicyError
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.privacy import composed, epsilon_of, mu_of

__all__ = ["BudgetAccountant", "guarantee_warning"]

_ROUNDING = 1e-9  # a budget of mu pays for n releases of mu / sqrt(n), whatever the last bit says


def guarantee_warning(ledger: Ledger, policy: Policy) -> str:
    """A warning if a policy allows other replies about data with private releases; else empty."""
    made = ledger.private_releases
    if not made or not set(policy.allow) - {"describe", "private"}:
        return ""
    releases = f"{made} private release{'s' if made > 1 else ''}"
    when = (
        "has ended, because other replies left too"
        if math.isinf(ledger.spent)
        else "ends with the first other reply"
    )
    return (
        f"The ledger holds {releases}, and this policy allows other replies:"
        f" the guarantee of differential privacy {when}."
    )


class BudgetAccountant:
    """Pays for private releases out of the budget of the policy, by lines in the ledger.

    The budget belongs to the data for good. It counts all lines of the ledger, whichever process
    wrote them. Lines about earlier versions of the data count too, since a record may be in all
    versions.
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
                "This site's policy grants no budget for private releases; it has no epsilon."
            )
        if math.isinf(granted):
            return
        spent = self._ledger.spent
        if math.isinf(spent):
            raise PolicyError(
                "This site's ledger holds replies without differential privacy, or lines that"
                " cannot be read, so nothing can be guaranteed for its data any more."
            )
        if composed((spent, mu)) > granted * (1 + _ROUNDING):
            used = epsilon_of(spent, self._policy.delta)
            raise PolicyError(
                "This release would exceed the privacy budget of this site: epsilon ="
                f" {self._policy.epsilon:g}, of which {used:.3g} is spent; ask for an earlier"
                " release again, or for a smaller epsilon."
            )

    def spend(self, mu: float) -> None:
        """Pay for a release. The line is on disk when this returns; noise may be drawn only
        after."""
        self.check(mu)
        self._ledger.record("private", "spent", data=self._data, mu=mu)
