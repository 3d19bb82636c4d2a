"""From names on the command line to the data of parties."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fedwad.errors import InputError
from fedwad.federation import FORMATS, Columns, Dataset, align_columns, read

__all__ = ["find_files", "read_parties"]


def find_files(sources: Sequence[str]) -> dict[str, Path]:
    """Files by the name of their party: files as they are, all readable ones of folders, all that a
    pattern matches.

    A party goes by its file's name without ending; files of the same name go by their paths.
    """
    found: list[Path] = []
    for source in sources:
        path = Path(source)
        if path.is_dir():
            inside = sorted(file for file in path.iterdir() if file.suffix.lower() in FORMATS)
            if not inside:
                raise InputError(
                    f"The folder {source} has no files that end in {' '.join(FORMATS)}."
                )
            found += inside
        elif path.exists() or not any(letter in source for letter in "*?["):
            if not path.exists() and path.suffix.lower() not in FORMATS:
                site = (
                    ""
                    if path.suffix or len(path.parts) > 1
                    else ", or add --engine and --connect if it is a site"
                )
                raise InputError(f"There is no file or folder {source}; check the path{site}.")
            found.append(path)
        else:
            matches = sorted(Path(match) for match in glob.glob(source, recursive=True))  # noqa: PTH207
            if not matches:
                raise InputError(f"No file matches {source}; check the pattern.")
            found += matches
    different = list({path.resolve(): path for path in found}.values())
    stems = Counter(path.stem for path in different)
    return {path.stem if stems[path.stem] == 1 else str(path): path for path in different}


def read_parties(sources: Sequence[str], columns: Columns) -> dict[str, Dataset]:
    """The data of all parties, with features in the same order."""
    return align_columns(
        {name: read(path, columns=columns) for name, path in find_files(sources).items()}
    )
