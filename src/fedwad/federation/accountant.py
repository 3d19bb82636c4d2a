"""The budget of differential privacy that a policy grants, and how much of it is left."""

from __future__ import annotations

import math

from fedwad.errors import PolicyError
from fedwad.federation.ledger import Ledger
from fedwad.federation.policy import Policy
from fedwad.privacy import compose, epsilon_of, mu_of

__all__ = ["BudgetAccountant", "guarantee_warning"]

_ROUNDING = 1e-9  # relative; n releases of mu / sqrt(n) must fit into a budget of mu


def guarantee_warning(ledger: Ledger, policy: Policy) -> str:
    """A warning if the policy allows replies without noise after private releases; else empty."""
    count = ledger.private_releases
    if not count or not set(policy.allow) - {"describe", "private"}:
        return ""
    releases = f"{count} private release{'s' if count > 1 else ''}"
    cause = "lines cannot be read" if ledger.unreadable else "replies without noise were sent too"
    when = (
        f"has ended, because {cause}"
        if math.isinf(ledger.spent)
        else "ends with the first of those"
    )
    return (
        f"The ledger holds {releases}, and this policy allows replies without noise:"
        f" the guarantee of differential privacy {when}."
    )


class BudgetAccountant:
    """Charges private releases to the policy's budget by writing entries into the ledger.

    A privacy loss is the mu of Gaussian differential privacy; losses compose as the root of the
    sum of their squares. The budget is never reset. All entries count, whichever process wrote
    them, and also those about earlier versions of the data, since a record may be in all versions.
    New entries name the data by `data_digest`.
    """

    def __init__(self, ledger: Ledger, policy: Policy, data_digest: str) -> None:
        self._ledger, self._policy, self._data_digest = ledger, policy, data_digest

    @property
    def granted(self) -> float:
        """Total mu that the policy allows over all releases; 0 without an epsilon."""
        epsilon = self._policy.epsilon
        if epsilon is None:
            return 0.0
        return math.inf if math.isinf(epsilon) else mu_of(epsilon, self._policy.delta)

    def check(self, mu: float) -> None:
        """Raise PolicyError unless a release of this privacy loss is within the budget."""
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
        if compose((spent, mu)) > granted * (1 + _ROUNDING):
            used = epsilon_of(spent, self._policy.delta)
            raise PolicyError(
                "This release would exceed the privacy budget of this site: epsilon ="
                f" {self._policy.epsilon:g}, of which {used:.3g} is spent; repeat an"
                " earlier request, whose reply is stored, or ask for a smaller epsilon."
            )

    def spend(self, mu: float) -> None:
        """Charge a release. Noise may be drawn only after this has written the entry to disk."""
        self.check(mu)
        self._ledger.record("private", "spent", data=self._data_digest, mu=mu)
