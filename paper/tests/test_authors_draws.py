"""The rows of clients and the clients of rounds that the authors' code draws."""

import numpy as np
import pytest

from paper.training import authors_draws

TRAIN, TEST = np.arange(3007) % 10, np.arange(2003) % 10


@pytest.mark.parametrize("clients", [10, 20])
@pytest.mark.parametrize("structure", ["groups", "drawn"])
def test_every_row_is_dealt_once_and_a_tenth_trains(clients, structure):
    found = authors_draws(TRAIN, TEST, clients, structure, 3)
    for labels, rows in ((TRAIN, found.train), (TEST, found.test)):
        assert np.array_equal(np.sort(np.concatenate(list(rows.values()))), np.arange(len(labels)))
        for client in range(clients):
            classes = set(labels[rows[client]].tolist())
            assert classes == set(TRAIN[found.train[client]].tolist())
            assert len(classes) <= 2
            if structure == "groups":
                assert {code // 2 for code in classes} == {min(classes) // 2}
    assert [len(set(own)) for own in found.rounds] == [clients // 10] * 10


@pytest.mark.parametrize(
    ("clients", "structure", "seed", "first", "last", "rows", "test_rows"),
    [
        (10, "groups", 0, [8], [2], [2972, 1773, 723, 1343], [149, 1978, 1348]),
        (20, "groups", 4, [10, 15], [6, 12], [1560, 2221, 21, 391], [288, 308, 198]),
        (20, "drawn", 1, [18, 7], [0, 9], [1507, 1517, 1527, 1537], [6, 16, 26]),
    ],
)
def test_numbers_are_those_of_the_authors_functions(
    clients, structure, seed, first, last, rows, test_rows
):
    """The numbers are from their functions, run on these labels."""
    found = authors_draws(TRAIN, TEST, clients, structure, seed)
    assert (list(found.rounds[0]), list(found.rounds[-1])) == (first, last)
    assert found.train[3][:4].tolist() == rows
    assert found.test[clients - 1][:3].tolist() == test_rows
