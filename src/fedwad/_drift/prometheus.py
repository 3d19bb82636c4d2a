"""A comparison as text for the textfile collector of Prometheus' node exporter."""

from __future__ import annotations

from typing import Any

__all__ = ["metrics"]

_GAUGES = {
    "distance": "Estimated distance between new data and the reference.",
    "noise": "Distance that two samples of one population have by chance.",
    "population": "Distance between the populations, without sampling noise.",
    "pvalue": "P-value of the permutation test.",
    "level": "Largest p-value that counts as drift in this comparison.",
    "drift": "1 if drift was found, else 0.",
    "test": "Number of this comparison with the reference.",
    "rows": "Rows of the new data.",
}


def metrics(numbers: dict[str, Any], reference: str, site: str) -> str:
    """Return text in the exposition format of Prometheus.

    Only the numbers named in `_GAUGES` are written, and those that are None are left out.

    Examples
    --------
    >>> print(metrics({"drift": 1}, "paris", "may"), end="")
    # HELP fedwad_drift 1 if drift was found, else 0.
    # TYPE fedwad_drift gauge
    fedwad_drift{reference="paris",site="may"} 1
    """
    labels = f'{{reference="{_escape(reference)}",site="{_escape(site)}"}}'
    lines = []
    for name, text in _GAUGES.items():
        if numbers.get(name) is not None:
            metric = "fedwad_drift" if name == "drift" else f"fedwad_drift_{name}"
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} gauge"]
            lines.append(f"{metric}{labels} {_format_number(numbers[name])}")
    return "\n".join(lines) + "\n"


def _format_number(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool | int) else repr(float(value))


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
