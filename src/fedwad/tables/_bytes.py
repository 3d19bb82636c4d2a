"""The text of a file as UTF-8 bytes, whatever its encoding and whether it is compressed."""

from __future__ import annotations

import codecs
from pathlib import Path

from fedwad.errors import InputError

__all__ = ["read_utf8"]

_GZIP = b"\x1f\x8b"  # the first bytes of a gzip file
# Byte order marks, and the encodings that they announce.
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 4096  # number of bytes at the start of a file by which UTF-16 is recognised
_CHUNK_BYTES = 1 << 20  # number of bytes decoded at a time


def read_utf8(path: Path, encoding: str | None = None) -> bytes:
    """The content of a text file in UTF-8, without a byte order mark.

    If `encoding` is None, it is detected. A byte order mark decides first. Without one, the text is
    UTF-16 if about every other byte is zero, UTF-8 if the bytes decode as such, and otherwise
    Windows-1252, which Excel writes.
    """
    data = path.read_bytes()
    if data[:2] == _GZIP:
        data = _gunzip(data, path)
    if encoding is not None:
        return _to_utf8(data, encoding, path)
    for bom, name in _BOMS:
        if data.startswith(bom):
            if name == "utf-8-sig" and _is_utf8(data):
                return data[len(bom) :]
            return _to_utf8(data, name, path)
    guess = _guess_utf16(data[:_SAMPLE_BYTES])
    if guess is not None:
        return _to_utf8(data, guess, path)
    return data if _is_utf8(data) else _from_cp1252(data)


def _gunzip(data: bytes, path: Path) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        raise InputError(f"{path} is a damaged gzip file; copy or compress it again.") from None


def _to_utf8(data: bytes, encoding: str, path: Path) -> bytes:
    try:
        return data.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except LookupError:
        raise InputError(
            f"There is no encoding '{encoding}'; give one such as utf-8, utf-16 or cp1252."
        ) from None
    except UnicodeError:
        raise InputError(f"{path} is not valid {encoding}; give its real encoding.") from None


def _is_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _CHUNK_BYTES):
            decoder.decode(data[start : start + _CHUNK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _guess_utf16(sample: bytes) -> str | None:
    """The byte order of UTF-16 text without a byte order mark; None if it is not UTF-16.

    In UTF-16 every other byte of most texts is zero.
    """
    half = len(sample) // 2
    if half and sample[1::2].count(0) > 0.7 * half:
        return "utf-16-le"
    return "utf-16-be" if half and sample[0::2].count(0) > 0.7 * half else None


def _from_cp1252(data: bytes) -> bytes:
    try:
        return data.decode("cp1252").encode("utf-8")
    except UnicodeDecodeError:  # cp1252 leaves five byte values undefined; Latin-1 maps all 256
        return data.decode("latin-1").encode("utf-8")
