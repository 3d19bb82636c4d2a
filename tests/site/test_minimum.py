"""A minimum counts different units, and values that a sum would tell, in replies of every kind."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import fedwad
from failing import fails
from fedwad.errors import PolicyError
from fedwad.federation import (
    AtomsRequest,
    CellsRequest,
    Client,
    Columns,
    ColumnsRequest,
    Dataset,
    LabelsRequest,
    Policy,
    PrototypesRequest,
    TransportRequest,
    read_raw,
)
from fedwad.site.context import ClientContext
from fedwad.site.store import Ledger
from fedwad.statistics.cells import Counted, kmeans_cells
from fedwad.tables import agree
from fedwad.transport import Measure

RNG = np.random.default_rng(5)
PATIENTS = np.repeat(np.arange(40), 20)  # of 20 visits each, alike but for noise
VISITS = RNG.normal(size=(40, 3))[PATIENTS] + 0.01 * RNG.normal(size=(800, 3))
SUPPORT = VISITS[::80]  # a patient each


def client(units, **rules):
    labels = np.where(PATIENTS < 4, "rare", "usual")
    kinds = ("transport", "cells", "atoms", "labels")
    policy = Policy(kinds, min_cell_size=20, classes=True, **rules)
    return Client(Dataset(Measure(VISITS), labels, units=units), policy)


@pytest.mark.parametrize(
    "asked",
    [
        TransportRequest("r", Measure(SUPPORT), 2.0, 0.5, "barycentric", True),
        CellsRequest("r", Measure(SUPPORT), 2.0, "spherical"),
    ],
    ids=lambda one: one.kind,
)
def test_a_cell_of_few_patients_is_withheld_however_many_visits_it_holds(asked):
    client(None).answer(asked)
    with fails(PolicyError, "small-cells"):
        client(PATIENTS).answer(asked)


def test_atoms_whose_cells_hold_few_patients_are_removed():
    asked = AtomsRequest(SUPPORT, np.zeros(len(SUPPORT)), 0.0)
    visits, patients = client(None).answer(asked), client(PATIENTS).answer(asked)
    assert np.count_nonzero(patients.masses) < np.count_nonzero(visits.masses)
    assert 20 <= patients.min_cell_size <= 40


def test_a_class_of_few_patients_is_not_named():
    assert client(None).answer(LabelsRequest()).names == ("rare", "usual")
    assert client(PATIENTS).answer(LabelsRequest()).names == ("usual",)


def test_one_record_is_all_rows_of_a_unit():
    data = Dataset(Measure(VISITS), units=PATIENTS)
    assert data.record == pytest.approx(20 / 800)
    assert Dataset(Measure(VISITS)).record == pytest.approx(1 / 800)


def test_no_cell_holds_few_values_of_a_column_that_is_mostly_zero():
    dose = np.where(RNG.random(400) < 0.1, RNG.integers(1, 900, 400), 0)
    table = pa.table({"age": RNG.normal(60, 9, 400), "dose": dose, "bmi": RNG.normal(26, 4, 400)})
    fed = fedwad.local({"a": table, "b": table.slice(0, 300)})
    data = fed.dataset("a")
    place = data.features.index("dose")
    taken = data.measure.points[:, place] != np.median(data.measure.points[:, place])

    def least(policy):
        context = ClientContext(data, policy, Ledger())
        labels = kmeans_cells(data.measure, 30, 10, 0, Counted(context.present, data.units))
        counts = np.bincount(labels[taken])
        return counts[counts > 0].min()

    assert least(Policy(("summary",), min_cell_size=1)) < 10
    assert least(Policy(("summary",), min_cell_size=10)) >= 10


@pytest.mark.filterwarnings("ignore::fedwad.DataWarning")
@pytest.mark.parametrize("rest", [np.nan, 0.0])
def test_a_site_with_few_values_of_a_column_answers_without_them(rest):
    """By its own schema too, where nobody else can leave the column out."""
    tables = {
        name: pd.DataFrame(
            {
                "age": RNG.normal(60, 9, 80),
                "dose": np.where(np.arange(80) < few, np.linspace(1.0, 9.0, 80), rest),
            }
        )
        for name, few in (("a", 5), ("b", 40))
    }
    schema = fedwad.schema(tables)
    fed = fedwad.local(tables, Policy(("summary",), min_cell_size=10), schema=schema)
    assert not fedwad.matrix(fed).failed
    dose = fed.dataset("a").features.index("dose")
    assert len(np.unique(fed.dataset("a").measure.points[:, dose])) == 1
    assert len(np.unique(fed.dataset("b").measure.points[:, dose])) == 41


def test_the_minimum_holds_for_cells_of_random_rows():
    origin = Measure(np.zeros((1, 3)))

    def asked(samples):
        return TransportRequest("r", origin, 2.0, 0.5, "barycentric", True, samples=samples)

    client(None, supports="any").answer(asked(20))
    with fails(PolicyError, "small-cells"):
        client(None, supports="any").answer(asked(19))
    with fails(PolicyError, "small-cells"):
        client(PATIENTS, supports="any").answer(asked(20))  # some of them are visits of one patient


def test_random_rows_are_the_sites_choice_and_the_same_request_draws_them_again():
    sites = [Client(Dataset(Measure(X)), Policy.open()) for X in (VISITS, VISITS[::-1], VISITS + 1)]

    def mean(site, **random_rows):
        origin = Measure(np.zeros((1, 3)))
        request = TransportRequest("r", origin, 2.0, 1e-12, "barycentric", False, **random_rows)
        return site.answer(request).interpolant.points[0]

    found = [mean(sites[0], samples=20, draw=draw) for draw in range(300)]
    assert np.array_equal(found[7], mean(sites[1], samples=20, draw=7))  # whatever the rows' order
    assert len(np.unique(found, axis=0)) == 300
    others = [mean(sites[2], samples=20, draw=draw) - 1 for draw in range(300)]
    assert not np.isclose(found, others).all(axis=1).any()  # nobody knows them without the rows
    # Means of 20 of 800 rows without replacement: as far from the mean of all as they should be.
    variance = VISITS.var(axis=0, ddof=1) * (1 / 20 - 1 / 800)
    assert np.mean((np.array(found) - VISITS.mean(axis=0)) ** 2 / variance) == pytest.approx(1, 0.2)
    everything = mean(sites[0])
    assert np.array_equal(mean(sites[0], samples=800), everything)
    assert np.array_equal(mean(sites[0], samples=10**6), everything)


@pytest.mark.parametrize(
    "asked",
    [
        TransportRequest(
            "r", Measure(np.zeros((1, 9))), 2.0, 0.5, "barycentric", True, class_statistics="diag"
        ),
        CellsRequest("r", Measure(np.zeros((1, 9))), 2.0, "spherical", class_statistics="diag"),
    ],
    ids=lambda one: one.kind,
)
def test_statistics_of_classes_are_of_enough_patients(asked):
    client(None).answer(asked)
    with fails(PolicyError, "small-cells"):
        client(PATIENTS).answer(asked)


@pytest.mark.parametrize("units", [None, "patient_id"])
@pytest.mark.parametrize("masses", ["free", "equal"])
def test_rows_of_a_rare_class_do_not_follow_from_sums_over_the_others(masses, units):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "patient_id": [f"p{k // 2}" for k in range(300)],
            "age": rng.integers(30, 90, 300).astype(float),
            "illness": rng.choice(["angina", "healthy", "infarct"], 300),
        }
    )
    table.loc[[7, 8], "illness"] = "hiv"
    columns = Columns.of(
        "illness", schema="auto", unit=units, drop=() if units else ("patient_id",)
    )
    policy = Policy(("columns", "prototypes"), min_cell_size=10, classes=True)
    site = Client(read_raw(table, columns=columns), policy)
    profile = site.answer(ColumnsRequest()).profile
    schema = agree({"site": profile})
    reply = site.answer(PrototypesRequest(30, "class", masses, 0, schema=schema.to_toml()))
    assert reply.names == ("angina", "healthy", "infarct")
    assert not reply.complete
    # Masses of classes are counts over the rows that were not left out, at least ten fewer.
    masses = np.array([reply.weights[reply.labels == k].sum() for k in range(3)])
    counts = np.arange(300, 0, -1)[:, None] * masses
    whole = np.abs(counts - counts.round()).max(axis=1) < 1e-6
    assert 300 - int(whole.argmax()) <= 290
