"""Writing files so that an interruption leaves the old one or the new one, never half of one."""

from __future__ import annotations

import os
from pathlib import Path

from fedwad.errors import InputError

__all__ = ["write_atomically"]


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write `content` to a temporary neighbour, flush it to disk, and rename it to `path`."""
    path = Path(path)
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if not path.parent.is_dir():
            raise InputError(f"There is no folder {path.parent} to write {path.name} into; create it first.")
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file to write.")
        _replace(path, data)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a valid name"
        raise InputError(f"{path} cannot be written ({reason}); choose another place.") from None


def _replace(path: Path, data: bytes) -> None:
    import tempfile  # when first needed: importing fedwad stays light

    handle, temporary = tempfile.mkstemp(prefix=".fedwad-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
