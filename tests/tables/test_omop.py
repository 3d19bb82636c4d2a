"""The query of examples/omop.sql on a small OMOP common data model of two centres."""

import json
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from command_line import run

QUERY = (Path(__file__).parents[2] / "examples" / "omop.sql").read_text()
MODEL = """
CREATE TABLE care_site (care_site_id INTEGER, care_site_name TEXT);
CREATE TABLE person (person_id INTEGER, gender_concept_id INTEGER, year_of_birth INTEGER);
CREATE TABLE visit_occurrence (visit_occurrence_id INTEGER, person_id INTEGER,
    visit_concept_id INTEGER, visit_start_date DATE, care_site_id INTEGER);
CREATE TABLE measurement (measurement_id INTEGER, person_id INTEGER,
    measurement_concept_id INTEGER, value_as_number FLOAT, visit_occurrence_id INTEGER);
"""


def rows_of_model():
    """Persons, visits and measurements; patients of the second centre are 15 years older."""
    rng = np.random.default_rng(0)
    persons, visits, measured = [], [], []
    for person in range(240):
        centre = person % 2
        birth = int(rng.normal(1960 - 15 * centre, 8))
        persons.append((person, int(rng.choice([8507, 8532])), birth))
        for _ in range(2):
            visit = len(visits)
            place = int(rng.choice([9201, 9202, 9203]))
            visits.append(
                (visit, person, place, f"20{rng.integers(18, 22)}-05-0{1 + visit % 9}", centre)
            )
            for concept, mean in ((3004249, 130), (3025315, 75)):
                if rng.random() < 0.9:
                    value = round(float(rng.normal(mean, 12)), 1)
                    measured.append((len(measured), person, concept, value, visit))
    return {"person": persons, "visit_occurrence": visits, "measurement": measured}


def write_postgresql(address, content):
    import adbc_driver_postgresql.dbapi as dbapi

    with dbapi.connect(address) as connection, connection.cursor() as cursor:
        for statement in filter(str.strip, MODEL.split(";")):
            cursor.execute(statement)
        for table, rows in content.items():
            values = ", ".join(str(row) for row in rows)  # Python's literals are SQL's here
            cursor.execute(f"INSERT INTO {table} VALUES {values}")  # noqa: S608
        connection.commit()
    return address


@pytest.fixture(params=["sqlite", "duckdb", "postgresql"])
def address(request, tmp_path):
    content = {"care_site": [(0, "oslo"), (1, "paris")], **rows_of_model()}
    if request.param == "postgresql":
        return write_postgresql(request.getfixturevalue("postgresql"), content)
    if request.param == "sqlite":
        connection = sqlite3.connect(tmp_path / "omop.db")
        connection.executescript(MODEL)
    else:
        connection = pytest.importorskip("duckdb").connect(str(tmp_path / "omop.db"))
        connection.execute(MODEL)
    for table, rows in content.items():
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608
    connection.commit()
    connection.close()
    return f"{request.param}:///{tmp_path / 'omop.db'}"


def test_two_centres_of_one_common_data_model(address):
    result = run("columns", address, "--query", QUERY, "--by", "centre", "--json")
    assert result.returncode in (0, 3), result.stderr
    found = {one["name"]: one for one in json.loads(result.stdout)["columns"]}
    assert set(found) == {"age", "sex", "visit", "systolic", "weight"}
    assert min(found, key=lambda name: found[name]["pvalue"]) == "age"
