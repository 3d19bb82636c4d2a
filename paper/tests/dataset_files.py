"""Small data sets in the format of the folder that FEDWAD_DATA names."""

import io
import zipfile

import numpy as np
import pytest


def write_npz(path, **arrays):
    """An .npz whose members are packed with LZMA, as those of the folder are."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.save(content, array)
            archive.writestr(f"{name}.npy", content.getvalue())


def grey(count, side, seed):
    """Random images, and labels that run through 0..9."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, side, side), dtype=np.uint8), (
        np.arange(count) % 10
    ).astype(np.uint8)


def jpegs(count, seed):
    """JPEGs with one header, in the form of the folder: header, scans, lengths; and what Pillow
    sees in them."""
    image = pytest.importorskip("PIL.Image", reason="the extra `paper` is not installed")

    rng = np.random.default_rng(seed)
    headers, scans, pixels = set(), [], []
    for _ in range(count):
        colours = (
            rng.integers(0, 256, (4, 4, 3), dtype=np.uint8).repeat(8, axis=0).repeat(8, axis=1)
        )
        file = io.BytesIO()
        image.fromarray(colours).save(file, "JPEG", quality=75)
        content = file.getvalue()
        pixels.append(np.asarray(image.open(io.BytesIO(content))))
        start = content.index(b"\xff\xda")
        start += 2 + int.from_bytes(content[start + 2 : start + 4], "big")
        headers.add(content[:start])
        assert content.endswith(b"\xff\xd9")
        scans.append(content[start:-2])
    (header,) = headers
    as_bytes = lambda data: np.frombuffer(data, dtype=np.uint8)  # noqa: E731
    lengths = np.array([len(scan) for scan in scans], dtype=np.uint16)
    return as_bytes(header), as_bytes(b"".join(scans)), lengths, np.array(pixels)
