"""A ledger in a file that several processes share and that counts across restarts.

A line is on disk before its reply leaves. A file beside the ledger, its head (`LEDGER.head`), holds
the length of the ledger and the seal (chained hash, see `_ledger_lines`) of its last line. An
unfinished line beyond that length is removed, since no reply left for it; complete lines count. A
ledger that is shorter than its head says, or has a different seal at that place, was cut, exchanged
or restored from a copy. Then nothing is answered until the operator has put back the newest one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, RLock
from weakref import WeakValueDictionary, finalize

from fedwad._files import write_atomically
from fedwad.errors import FederationError, InputError
from fedwad.federation._ledger_lines import (
    FIRST_SEAL,
    Entry,
    read_lines,
    refuse_unchained,
    sealed_line,
)
from fedwad.federation.ledger import Ledger, parse_entries

__all__ = ["FileLedger"]

_REPLACED = (
    "The site's ledger was cut, exchanged or restored from a copy, so nothing is answered until"
    " its operator has put back the newest one."
)
_HEAD_BYTES = 64

Identity = tuple[int, int]  # of a file: its device and its inode


class FileLedger(Ledger):
    """A ledger in a file of JSON lines.

    A process has one object for each file, however often it is opened.

    A line that cannot be read stays and counts as a reply of every kind. If the file cannot be
    written, nothing is answered. A write that failed is undone, so that it costs no query and no
    budget.
    """

    path: Path
    _identity: Identity
    _initialised: bool

    def __new__(cls, path: str | Path) -> FileLedger:
        path = Path(path)
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file for the ledger.")
        if not path.parent.is_dir():
            raise InputError(
                f"There is no folder {path.parent} for the ledger {path.name}; create it first."
            )
        descriptor = _open_or_create(path)
        state = os.fstat(descriptor)
        identity = state.st_dev, state.st_ino
        with _ledgers_lock:
            ledger = _ledgers.get(identity)
            if ledger is not None:
                os.close(descriptor)
                return ledger
            ledger = _ledgers[identity] = super().__new__(cls)
            ledger.path, ledger._identity = path, identity
            ledger._initialised, ledger._lock = False, RLock()
            finalize(ledger, os.close, descriptor)  # while open, no new file has this identity
        return ledger

    def __init__(self, path: str | Path) -> None:  # noqa: ARG002
        with self._lock:
            if self._initialised:
                return
            lock = self._lock
            super().__init__()
            self._lock = lock
            self._end, self._seal, self._replaced = 0, FIRST_SEAL, False
            self._descriptor: int | None = None
            with self.lock():  # an unwritable ledger fails now, not at the first reply
                try:
                    self._write_head()
                except OSError as error:
                    raise _unwritable(error) from None
            self._initialised = True

    @property
    def lock_order(self) -> str:
        return f"file {os.path.realpath(self.path)}"

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines, oldest first, read from the file."""
        return tuple(parse_entries(self.path.read_bytes()))

    @property
    def releases_folder(self) -> Path:
        """The folder in which the site stores its private releases."""
        return self.path.with_suffix(".releases")

    @property
    def head_path(self) -> Path:
        """The file with the length and the last seal of the ledger."""
        return self.path.with_name(self.path.name + ".head")

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self._lock:
            if self._descriptor is not None:  # the same thread is already inside
                yield
                return
            self._descriptor = self._open_locked()
            try:
                self._catch_up(self._descriptor)
                yield
            finally:
                os.close(self._descriptor)
                self._descriptor = None

    def _open_locked(self) -> int:
        try:
            import fcntl
        except ImportError:  # Windows
            raise FederationError(
                "A ledger in a file needs the file locks of Linux or macOS."
            ) from None
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            self._replaced = True
            raise FederationError(_REPLACED) from None
        except OSError as error:
            raise _unwritable(error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _catch_up(self, descriptor: int) -> None:
        """Count the lines that any process has appended since the last lock.

        FederationError if the file was replaced or cut, now and at every later lock.
        """
        state = os.fstat(descriptor)
        head = self._read_head()
        same = (state.st_dev, state.st_ino) == self._identity
        if self._replaced or not same or state.st_size < max(self._end, head[0] if head else 0):
            self._replaced = True
            raise FederationError(_REPLACED)
        if state.st_size > self._end or not self._initialised:
            text = _read(descriptor, self._end, state.st_size)
            if not self._end:
                refuse_unchained(text, self.path.name)
            self._count(self._complete_lines(descriptor, text, head), head)

    def _complete_lines(self, descriptor: int, text: bytes, head: tuple[int, str] | None) -> bytes:
        """The text up to its last newline.

        An unfinished last line is removed, or, if there is no head, ended with a newline so that it
        counts as unreadable.
        """
        if not text or text.endswith(b"\n"):
            return text
        try:
            if head is None:
                os.write(descriptor, b"\n")
                return text + b"\n"
            text = text[: text.rfind(b"\n") + 1]
            os.ftruncate(descriptor, self._end + len(text))
        except OSError as error:
            raise _unwritable(error) from None
        return text

    def _count(self, text: bytes, head: tuple[int, str] | None) -> None:
        """Count complete lines; FederationError unless the head fits the place that it names."""
        start, end, seal = self._end, self._end, self._seal
        matches = head is None or head[0] < start or head == (start, seal)
        for content, line_end, seal in read_lines(text, self._seal):
            self._count_line(content)
            end = start + line_end
            matches = matches or head == (end, seal)
        self._end, self._seal = end, seal
        if not matches:
            self._replaced = True
            raise FederationError(_REPLACED)

    def _append(self, entry: Entry) -> None:
        if self._descriptor is None:
            raise FederationError("A ledger is written only while it is locked.")
        line, seal = sealed_line(entry, self._seal)
        before = self._end, self._seal
        try:
            _write(self._descriptor, line)
            self._end, self._seal = before[0] + len(line), seal
            self._write_head()
        except BaseException as error:
            self._end, self._seal = before
            with suppress(OSError):  # if this fails too, the line counts at the next lock
                os.ftruncate(self._descriptor, self._end)
            if isinstance(error, OSError):
                raise _unwritable(error) from None
            raise
        self._count_line(entry.content)

    def _write_head(self) -> None:
        """Overwrite the head in place, without waiting for the disk.

        After a power cut the head may be older than the ledger, which is valid too.
        """
        content = f"{self._end} {self._seal}".ljust(_HEAD_BYTES - 1).encode() + b"\n"
        descriptor = os.open(self.head_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(descriptor, content, 0)
        finally:
            os.close(descriptor)

    def _read_head(self) -> tuple[int, str] | None:
        try:
            words = self.head_path.read_bytes()[:_HEAD_BYTES].decode("ascii").split()
            return (int(words[0]), words[1]) if len(words) == 2 else None
        except (OSError, ValueError):
            return None

    def stored_release(self, key: str) -> bytes | None:
        try:
            return (self.releases_folder / key).read_bytes()
        except OSError:
            return None

    def reserve(self, key: str, size: int) -> None:
        try:
            self.releases_folder.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._reserved_file(key), b" " * size)
        except (OSError, InputError) as error:
            raise FederationError(
                f"The folder of releases cannot be written ({_cause(error)}), so nothing was spent"
                " and nothing answered."
            ) from None

    def store_release(self, key: str, content: bytes) -> None:
        try:
            self.releases_folder.mkdir(mode=0o700, exist_ok=True)
            self._reserved_file(key).unlink(missing_ok=True)
            write_atomically(self.releases_folder / key, content)
        except (OSError, InputError) as error:
            raise FederationError(
                f"The folder of releases cannot be written ({_cause(error)})."
            ) from None

    def _reserved_file(self, key: str) -> Path:
        """The file that reserves room for a release."""
        return self.releases_folder / f"{key}.space"


_ledgers_lock = Lock()
_ledgers: WeakValueDictionary[Identity, FileLedger] = WeakValueDictionary()


def _open_or_create(path: Path) -> int:
    """Open a file, and create it if there is none."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unwritable(error) from None


def _read(descriptor: int, start: int, end: int) -> bytes:
    with os.fdopen(descriptor, "rb", closefd=False) as file:
        file.seek(start)
        return file.read(end - start)


def _write(descriptor: int, line: bytes) -> None:
    """Append a line and wait until it is on disk."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _unwritable(error: OSError) -> FederationError:
    return FederationError(
        f"The site's ledger cannot be written ({_cause(error)}), so nothing was answered."
    )


def _cause(error: OSError | InputError) -> str:
    """Why a file could not be written. The text of an InputError has its path, which stays here."""
    system_error = error.__context__ if isinstance(error, InputError) else error
    return getattr(system_error, "strerror", None) or "unknown reason"
