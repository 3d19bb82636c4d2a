"""Take a picture of a report with headless Chromium, by default the one that the README shows.

    python scripts/screenshot.py                          # the page of the demo -> docs/report.png
    python scripts/screenshot.py report.html picture.png  # any report; --width, --height, --scale,
                                                          # --dark

With --keep, the page of the demo stays next to the picture.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_demo_page(path: Path) -> None:
    """Write the page of `fedwad demo`, on four hospitals."""
    command = [sys.executable, "-m", "fedwad", "demo", "--report", str(path)]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603


def take_picture(page: Path, path: Path, width: int, height: int, scale: float, dark: bool) -> None:
    """Take a picture of the top of the page, in a window of this width and height in CSS pixels."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if browser is None:
        sys.exit("There is no chromium here; install it (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as profile:
        command = [
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
        subprocess.run(command, check=True, capture_output=True, timeout=120)  # noqa: S603
    from PIL import Image

    Image.open(path).convert("RGB").quantize(200).save(path, optimize=True)  # a third of the size


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "page", nargs="?", type=Path, help="a report; by default, the page of the demo"
    )
    parser.add_argument("picture", nargs="?", type=Path, default=ROOT / "docs" / "report.png")
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=1700)
    parser.add_argument("--scale", type=float, default=1.25)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument(
        "--keep", action="store_true", help="keep the page of the demo next to the picture"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = options.page
        if page is None:
            page = (
                options.picture.with_suffix(".html")
                if options.keep
                else Path(folder) / "report.html"
            )
            write_demo_page(page)
        size = options.width, options.height, options.scale
        take_picture(page, options.picture, *size, options.dark)


if __name__ == "__main__":
    main()
