"""Take the picture of a report that the README shows, with headless Chromium.

    python scripts/screenshot.py                          # the page of the demo -> docs/report.png
    python scripts/screenshot.py report.html picture.png  # any report; --width, --height, --scale,
                                                          # --dark

The demo's page itself stays beside the picture with --keep.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def example(path: Path) -> None:
    """The page of `fedwad demo`: four hospitals."""
    words = [sys.executable, "-m", "fedwad", "demo", "--report", str(path)]
    subprocess.run(words, check=True, capture_output=True)  # noqa: S603


def picture(page: Path, path: Path, width: int, height: int, scale: float, dark: bool) -> None:
    """The top of the page, as a window of that many CSS pixels shows it."""
    browser = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if browser is None:
        sys.exit("There is no chromium here; install it (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as profile:
        words = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--force-device-scale-factor={scale}",
            *(["--blink-settings=preferredColorScheme=0"] if dark else []),
            f"--screenshot={path.resolve()}",
            page.resolve().as_uri(),
        ]
        subprocess.run(words, check=True, capture_output=True, timeout=120)  # noqa: S603
    from PIL import Image

    Image.open(path).convert("RGB").quantize(200).save(path, optimize=True)  # a third of the size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "page", nargs="?", type=Path, help="a report; without it the example is made"
    )
    parser.add_argument("picture", nargs="?", type=Path, default=ROOT / "docs" / "report.png")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=2520)
    parser.add_argument("--scale", type=float, default=1.25)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument(
        "--keep", action="store_true", help="keep the example's report beside the picture"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = given.page
        if page is None:
            page = (
                given.picture.with_suffix(".html") if given.keep else Path(folder) / "report.html"
            )
            example(page)
        picture(page, given.picture, given.width, given.height, given.scale, given.dark)


if __name__ == "__main__":
    main()
