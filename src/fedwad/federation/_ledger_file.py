"""A ledger in a file that several processes share and that counts across restarts.

A line is on disk before its reply leaves. The file `LEDGER.head` beside it says how far the file
was complete and by which seal. What lies beyond is a write that never ended, so no reply left for
it, and it is taken back. A ledger that is shorter than its head, or has another seal there, was
cut, exchanged or restored from a copy. Then nothing is answered until the operator has put it
right.
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
from fedwad.federation._ledger_memory import Ledger, entries_of

__all__ = ["FileLedger"]

_CLOSED = (
    "The site's ledger was cut, exchanged or restored from a copy, so nothing is answered until"
    " its operator has put back the newest one."
)
_HEAD = 64  # bytes

Identity = tuple[int, int]


class FileLedger(Ledger):
    """A ledger in a file of JSON lines.

    A process has one object for each file, however often it is opened.

    A line that cannot be read stays and counts as a reply of every kind. A ledger that cannot be
    written means that nothing is answered; a write that failed is taken back, so that it costs no
    query and no budget.
    """

    path: Path
    _identity: Identity
    _ready: bool

    def __new__(cls, path: str | Path) -> FileLedger:
        place = Path(path)
        if place.is_dir():
            raise InputError(f"{place} is a folder; name a file for the ledger.")
        if not place.parent.is_dir():
            raise InputError(
                f"There is no folder {place.parent} for the ledger {place.name}; create it first."
            )
        anchor = _opened(place)
        state = os.fstat(anchor)
        identity = state.st_dev, state.st_ino
        with _registry:
            found = _ledgers.get(identity)
            if found is not None:
                os.close(anchor)
                return found
            found = _ledgers[identity] = super().__new__(cls)
            found.path, found._identity = place, identity
            found._ready, found._lock = False, RLock()
            finalize(found, os.close, anchor)  # while it is open, no new file has this identity
        return found

    def __init__(self, path: str | Path) -> None:  # noqa: ARG002
        with self._lock:
            if self._ready:
                return
            lock = self._lock
            super().__init__()
            self._lock = lock
            self._end, self._seal, self._closed = 0, FIRST_SEAL, False
            self._file: int | None = None
            with self.lock():  # says at the start what would otherwise fail at the first reply
                try:
                    self._write_head()
                except OSError as error:
                    raise _unwritable(error) from None
            self._ready = True

    @property
    def order(self) -> str:
        return f"file {os.path.realpath(self.path)}"

    @property
    def entries(self) -> Sequence[Entry]:
        """All lines, oldest first, read from the file."""
        return tuple(entries_of(self.path.read_bytes()))

    @property
    def releases(self) -> Path:
        """The folder of private releases that were kept, beside the file."""
        return self.path.with_suffix(".releases")

    @property
    def head(self) -> Path:
        """The file that says how far the ledger was complete."""
        return self.path.with_name(self.path.name + ".head")

    @contextmanager
    def lock(self) -> Iterator[None]:
        with self._lock:
            if self._file is not None:  # the same thread is already inside
                yield
                return
            self._file = self._locked()
            try:
                self._catch_up(self._file)
                yield
            finally:
                os.close(self._file)
                self._file = None

    def _locked(self) -> int:
        try:
            import fcntl
        except ImportError:  # Windows
            raise FederationError(
                "A ledger in a file needs the file locks of Linux or macOS."
            ) from None
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            self._closed = True
            raise FederationError(_CLOSED) from None
        except OSError as error:
            raise _unwritable(error) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except BaseException:
            os.close(file)
            raise
        return file

    def _catch_up(self, file: int) -> None:
        """Take in what was written since, by this process or another; close for good if the file is
        another one.
        """
        state = os.fstat(file)
        head = self._read_head()
        same = (state.st_dev, state.st_ino) == self._identity
        if self._closed or not same or state.st_size < max(self._end, head[0] if head else 0):
            self._closed = True
            raise FederationError(_CLOSED)
        if state.st_size > self._end or not self._ready:
            text = _read(file, self._end, state.st_size)
            if not self._end:
                refuse_unchained(text, self.path.name)
            self._take_in(self._whole_lines(file, text, head), head)

    def _whole_lines(self, file: int, text: bytes, head: tuple[int, str] | None) -> bytes:
        """The text up to its last newline.

        The rest is taken back, or ended where no head says what it is.
        """
        if not text or text.endswith(b"\n"):
            return text
        try:
            if head is None:
                os.write(file, b"\n")
                return text + b"\n"
            text = text[: text.rfind(b"\n") + 1]
            os.ftruncate(file, self._end + len(text))
        except OSError as error:
            raise _unwritable(error) from None
        return text

    def _take_in(self, text: bytes, head: tuple[int, str] | None) -> None:
        """Count whole lines, and make sure that the file is the one that its head is for."""
        start, known = self._end, head is None or head[0] < self._end
        known = known or head == (self._end, self._seal)
        for line in read_lines(text, self._seal):
            self._tally.add(line.content)
            self._end, self._seal = start + line.end, line.seal
            known = known or head == (self._end, self._seal)
        if not known:
            self._closed = True
            raise FederationError(_CLOSED)

    def _append(self, entry: Entry) -> None:
        if self._file is None:
            raise FederationError("A ledger is written only while it is locked.")
        line, seal = sealed_line(entry, self._seal)
        before = self._end, self._seal
        try:
            _write(self._file, line)
            self._end, self._seal = before[0] + len(line), seal
            self._write_head()
        except BaseException as error:
            self._end, self._seal = before
            with suppress(OSError):  # where this fails too, the head says the same at the next lock
                os.ftruncate(self._file, self._end)
            if isinstance(error, OSError):
                raise _unwritable(error) from None
            raise
        self._tally.add(entry.content)

    def _write_head(self) -> None:
        """Overwrite the head in place; it is no line, and an older one after a power cut is as
        good.
        """
        head = os.open(self.head, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.pwrite(head, f"{self._end} {self._seal}".ljust(_HEAD - 1).encode() + b"\n", 0)
        finally:
            os.close(head)

    def _read_head(self) -> tuple[int, str] | None:
        try:
            words = self.head.read_bytes()[:_HEAD].decode("ascii").split()
            return (int(words[0]), words[1]) if len(words) == 2 else None
        except (OSError, ValueError):
            return None

    def kept(self, key: str) -> bytes | None:
        try:
            return (self.releases / key).read_bytes()
        except OSError:
            return None

    def reserve(self, key: str, size: int) -> None:
        try:
            self.releases.mkdir(mode=0o700, exist_ok=True)
            write_atomically(self._space(key), b" " * size)
        except OSError as error:
            raise FederationError(
                f"The folder of releases cannot be written ({error.strerror}), so nothing was spent"
                " and nothing answered."
            ) from None

    def keep(self, key: str, content: bytes) -> None:
        try:
            self.releases.mkdir(mode=0o700, exist_ok=True)
            self._space(key).unlink(missing_ok=True)
            write_atomically(self.releases / key, content)
        except OSError as error:
            raise FederationError(
                f"The folder of releases cannot be written ({error.strerror})."
            ) from None

    def _space(self, key: str) -> Path:
        """The file that keeps room for a release."""
        return self.releases / f"{key}.space"


_registry = Lock()
_ledgers: WeakValueDictionary[Identity, FileLedger] = WeakValueDictionary()


def _opened(path: Path) -> int:
    """The file, which is made if there is none."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unwritable(error) from None


def _read(file: int, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        part = os.pread(file, end - start, start)
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _write(file: int, line: bytes) -> None:
    """Append a line and wait until it is on disk."""
    rest = memoryview(line)
    while rest:
        rest = rest[os.write(file, rest) :]
    os.fsync(file)


def _unwritable(error: OSError) -> FederationError:
    reason = error.strerror or "unknown reason"
    return FederationError(
        f"The site's ledger cannot be written ({reason}), so nothing was answered."
    )
