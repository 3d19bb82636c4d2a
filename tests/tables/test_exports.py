"""From an export as hospitals have it to a page, without any preparation."""

import json

import numpy as np

from command_line import run

WORDS = {"number", "date", "category", "ignored"}


def write_export(path, seed, shift):
    """Titles, semicolons, decimal commas, d-m-Y, cp1252, an empty column, 60 codes, mixed cells."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 61)
    rows = []
    for k in range(400):
        weight = f"{rng.normal(75 + shift, 12):.1f}".replace(".", ",")
        code = rng.choice(60, p=weights / weights.sum())
        crp = "<0,5" if rng.random() < 0.1 else f"{rng.gamma(2, 4):.1f}".replace(".", ",")
        day = (
            f"{rng.integers(1, 29):02d}-{rng.integers(1, 13):02d}-{rng.integers(2015, 2022)} 14:30"
        )
        place = rng.choice(["Zürich", "Genève", "k.A."])
        cells = [
            f"{k:05d}",
            weight,
            day,
            f"I{code:02d}",
            crp,
            place,
            "",
            f"{rng.integers(0, 100)} %",
        ]
        rows.append(";".join(cells))
    names = "Fall-Nr;Gewicht;Aufnahme;Diagnose;CRP;Ort;;Sättigung"
    units = ";[kg];;;[mg/l];;;"
    text = [
        "Export Klinik ; Stand 2024-05-01",
        "",
        names,
        units,
        *rows,
        "",
        "Quelle: Klinik;;;;;;;",
    ]
    path.write_bytes("\r\n".join(text).encode("cp1252"))


def test_exports_become_a_page(tmp_path):
    write_export(tmp_path / "paris.csv", 0, 0)
    write_export(tmp_path / "oslo.csv", 1, 9)
    report, schema = tmp_path / "page.html", tmp_path / "schema.toml"
    result = run("matrix", str(tmp_path), "--json", "--report", str(report))
    assert result.returncode == 3, result.stderr
    assert json.loads(result.stdout)["sites"] == ["oslo", "paris"]
    assert "is left out" in result.stderr
    assert "Zürich" in report.read_text("utf-8")
    assert run("schema", str(tmp_path), "--out", str(schema)).returncode == 0
    text = schema.read_text("utf-8")
    kinds = dict(zip(text.split("[columns.")[1:], text.split("kind = ")[1:], strict=True))
    found = {name.partition("]")[0].strip('"'): kind.split('"')[1] for name, kind in kinds.items()}
    assert found == {
        "Fall-Nr": "ignored",
        "Gewicht": "number",
        "Aufnahme": "date",
        "Diagnose": "category",
        "CRP": "number",
        "Ort": "category",
        "Sättigung": "number",
    }
