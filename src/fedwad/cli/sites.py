"""From names on the command line to the data of sites."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedwad.errors import InputError
from fedwad.federation import FORMATS, Columns, Dataset, align_columns, read

__all__ = ["find_files", "read_sites"]


def find_files(sources: Sequence[str]) -> dict[str, Path]:
    """Return files by the name of their site.

    A source is a file, a folder of readable files, or a pattern. A site is named after its file
    without ending; files of the same name are named by their paths.
    """
    found = [path for source in sources for path in _files_of(source)]
    different = list({path.resolve(): path for path in found}.values())
    stems = Counter(path.stem for path in different)
    return {path.stem if stems[path.stem] == 1 else str(path): path for path in different}


def _files_of(source: str) -> list[Path]:
    path = Path(source)
    if path.is_dir():
        return _files_in(path)
    if path.exists() or (path.suffix.lower() in FORMATS and not _is_pattern(source)):
        return [path]
    if _is_pattern(source):
        matches = sorted(Path(match) for match in glob.glob(source, recursive=True))  # noqa: PTH207
        if not matches:
            raise InputError(f"No file matches {source}; check the pattern.")
        return matches
    plain = not path.suffix and len(path.parts) == 1
    site = ", or add --engine and --connect if it is a site" if plain else ""
    raise InputError(f"There is no file or folder {source}; check the path{site}.")


def _files_in(folder: Path) -> list[Path]:
    inside = sorted(file for file in folder.iterdir() if file.suffix.lower() in FORMATS)
    if not inside:
        raise InputError(f"The folder {folder} has no files that end in {' '.join(FORMATS)}.")
    return inside


def _is_pattern(source: str) -> bool:
    return any(sign in source for sign in "*?[")


def read_sites(sources: Sequence[str], columns: Columns) -> dict[str, Dataset]:
    """Return the data of all sites, with features in the same order."""
    return align_columns(
        {name: read(path, columns=columns) for name, path in find_files(sources).items()}
    )
