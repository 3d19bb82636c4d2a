"""Commands build the site of each file once, whether or not the sites agree on a schema."""

import numpy as np
import pytest

from fedwad.cli.console import progress_bar
from fedwad.cli.sites import open_sites
from fedwad.federation import Client, Columns, Policy


@pytest.mark.parametrize("schema", ["auto", None])
def test_each_file_becomes_one_client(tmp_path, monkeypatch, schema):
    built = []
    init = Client.__init__

    def counted(self, *arguments, **keywords):
        built.append(self)
        init(self, *arguments, **keywords)

    monkeypatch.setattr(Client, "__init__", counted)
    rng = np.random.default_rng(0)
    files = {name: tmp_path / f"{name}.csv" for name in ("paris", "oslo", "rome")}
    for path in files.values():
        np.savetxt(path, rng.normal(size=(30, 2)), delimiter=",", header="age,height", comments="")
    with progress_bar("Reading") as bar:
        federation = open_sites(files, Columns.of(schema=schema), Policy.open(), bar)
    assert federation.names == tuple(files)
    assert len(built) == len(files)
    assert (federation.schema is None) == (schema is None)
    assert federation.features == ("age", "height")
