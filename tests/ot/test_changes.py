"""Changed correlations are found, whatever the number of features."""

import numpy as np
import pytest

from fedwad.ot import changed_correlations


# Once failed for two features, and for three of which one does not vary: the only score was
# divided by itself.
@pytest.mark.parametrize("variances", [(1.0, 1.0), (1.0, 1.0, 0.0), (1.0, 1.0, 1.0)])
def test_a_reversed_correlation_is_found(variances):
    here, there = np.diag(variances), np.diag(variances)
    here[0, 1] = here[1, 0] = 0.9
    there[0, 1] = there[1, 0] = -0.9
    (found,) = changed_correlations(here, there, (300.0, 300.0), np.arange(len(variances)))
    assert (found.first, found.second, found.here, found.there) == (0, 1, 0.9, -0.9)
    assert changed_correlations(here, here, (300.0, 300.0), np.arange(len(variances))) == ()
