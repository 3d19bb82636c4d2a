"""A site is named after its file, everywhere in the same way."""

import gzip
import json
from pathlib import Path

import pytest

import command_line
import fedwad
from fedwad.cli.sites import find_files
from fedwad.errors import DataWarning
from fedwad.tables.read import files_by_site, site_name

_ROWS = "age,city\n" + "61.5,x\n52.5,x\n70.5,y\n" * 8
_FILES = {"st.mary": "st.mary.csv", "st.john": "st.john.CSV.gz", "oslo": "oslo.tsv.gz"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in _FILES.values():
        text = _ROWS if "tsv" not in name else _ROWS.replace(",", "\t")
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return tmp_path


@pytest.mark.parametrize(
    ("file", "site"),
    [
        ("paris.csv", "paris"),
        ("st.mary.csv", "st.mary"),
        ("st.mary.csv.gz", "st.mary"),
        ("st.mary.TSV.GZ", "st.mary"),
        ("st.mary.gz", "st.mary"),
        ("st.mary.parquet", "st.mary"),
        ("rounds/1.5/st.mary.npy", "st.mary"),
        ("paris", "paris"),
    ],
)
def test_site_name_is_the_file_without_its_ending(file: str, site: str) -> None:
    assert site_name(Path(file)) == site


def test_files_of_the_same_name_are_named_by_their_paths() -> None:
    here, there, oslo = Path("a/st.mary.csv"), Path("b/st.mary.csv.gz"), Path("oslo.csv")
    expected = {str(here): here, str(there): there, "oslo": oslo}
    assert files_by_site([here, there, oslo]) == expected


def test_schema_and_command_line_name_sites_alike(folder: Path) -> None:
    with (folder / "st.mary.csv").open("a") as file:
        file.write("999,x\n" * 12)
    with pytest.warns(DataWarning):
        conflicts = fedwad.schema(folder).conflicts
    assert {site for conflict in conflicts for site in conflict.sites} == {"st.mary"}
    assert set(find_files([str(folder)])) == set(_FILES)


def test_distance_command_names_sites_alike(folder: Path) -> None:
    done = command_line.run("distance", "st.mary.csv", "st.john.CSV.gz", "--json", cwd=folder)
    assert done.returncode in (0, 3, 4)
    assert json.loads(done.stdout)["sites"] == ["st.mary", "st.john"]
