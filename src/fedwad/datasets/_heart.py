"""Heart disease in four hospitals, as raw tables that come with the package."""

from __future__ import annotations

from pathlib import Path

__all__ = ["HEART_LABEL", "HEART_SITES", "heart_files"]

#: Cleveland Clinic Foundation; Hungarian Institute of Cardiology, Budapest; University Hospitals,
#: Zurich and Basel; V.A. Medical Center, Long Beach.
HEART_SITES = ("cleveland", "hungarian", "switzerland", "va")
#: The column with the diagnosis: 0 is no heart disease, 1 to 4 are degrees of disease.
HEART_LABEL = "num"


def heart_files() -> dict[str, Path]:
    """The file of each hospital; `heart/README.md` has the source and the licence (CC BY 4.0).

    >>> [(site, path.name) for site, path in heart_files().items()][:2]
    [('cleveland', 'cleveland.csv'), ('hungarian', 'hungarian.csv')]
    """
    folder = Path(__file__).parent / "heart"
    return {site: folder / f"{site}.csv" for site in HEART_SITES}
