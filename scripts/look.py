"""Look at a page of each kind: pictures in several widths, and accessibility by axe-core.

    npm pack axe-core && tar xzf axe-core-*.tgz
    python scripts/look.py FOLDER --axe package/axe.min.js   # serious findings: exit code 1
    python scripts/look.py FOLDER --pictures                 # narrow and wide, dark, printed
    python scripts/look.py FOLDER --pictures --pages report.html

It needs selenium, chromium and chromedriver. The pages and pictures stay in FOLDER.
"""

from __future__ import annotations

import argparse
import base64
import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import fedwad
from fedwad.learning import TrainingOptions, train
from fedwad.privacy import plan
from fedwad.report import write_report

WIDTHS = (320, 768, 1280)
SERIOUS = ("serious", "critical")


def write_pages(folder: Path) -> list[Path]:
    """A page of each kind, of four hospitals or of a few random rows."""
    rng = np.random.default_rng(0)
    files = fedwad.datasets.load("heart")
    fed = fedwad.local(files, label_column="num", missing={"chol": ["0"]})
    m, t = fedwad.matrix(fed), fedwad.columns(fed)
    r = fedwad.distance(fed["cleveland"], fed["va"])
    rows = rng.normal(size=(200, 4))
    arrays = {f"site{k}": rng.normal(k // 3, 1, (80, 4)) for k in range(9)}
    classes = {name: (X, (X[:, 0] > X.mean()).astype(int)) for name, X in list(arrays.items())[:4]}
    known = fedwad.matrix({name: arrays[name] for name in list(arrays)[:5]})
    reference = fedwad.Reference.from_data(rows)
    embedding = fedwad.embed(arrays, support=4)
    rounds: dict[str, Any] = {"method": "fedwad", "support": 5, "rounds": 4, "reveal": "every"}
    training = train(fedwad.local(classes), TrainingOptions(rounds=3), test_every_round=True)
    ledgers = {name: ledger.entries for name, ledger in fed.ledgers.items()}
    sent = {"ledgers": ledgers, "policies": dict.fromkeys(ledgers, "none")}
    results: dict[str, tuple[Any, dict[str, Any]]] = {
        "columns": (t, sent),
        "matrix": (m, sent | {"clusters": m.cluster(2), "columns": t}),
        "distance": (r, sent | {"columns": t}),
        "rounds": (fedwad.distance(rows, rows + 1, **rounds), {}),
        "test": (fedwad.permutation_test(fed["cleveland"], fed["va"]), {"columns": t}),
        "join": (known.add(arrays["site8"], "new"), {"newcomer": "new"}),
        "many": (fedwad.matrix(arrays), {"clusters": [k // 3 for k in range(9)]}),
        "coreset": (fedwad.coreset(fed, size=4, method="summary"), sent),
        "embedding": (embedding, {"clusters": embedding.cluster(3)}),
        "drift": (reference.compare(rng.normal([2, 0, 0, 0], 1, (150, 4))), {}),
        "audit": (fedwad.audit(rows[:60], fedwad.Policy.open()), {}),
        "training": ({"all together": training}, {}),
        "plan": ([plan(300, 4, e) for e in (1.0, 8.0)], {"sentence": "300 rows."}),
    }
    for name, (result, options) in results.items():
        write_report(result, folder / f"{name}.html", command="fedwad ...", **options)
    return [folder / f"{name}.html" for name in results]


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    with tempfile.TemporaryDirectory() as profile:
        for word in (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(word)
        service = webdriver.ChromeService(shutil.which("chromedriver"))
        session = webdriver.Chrome(options=options, service=service)
        try:
            yield session
        finally:
            session.quit()


def show(session: Any, page: Path, width: int, dark: bool = False, media: str = "screen") -> None:
    """Open a page in a window of this width."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    session.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    session.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
    session.get(page.resolve().as_uri())


def wrong(session: Any, axe: str) -> list[str]:
    """What axe-core finds in the open page that is serious, with all folds open."""
    session.execute_script("document.querySelectorAll('.fold > input').forEach((b) => b.click())")
    session.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})  # the page allows no script
    run = "axe.run({resultTypes: ['violations']}).then((found) => JSON.stringify(found.violations))"
    options = {"expression": run, "awaitPromise": True, "returnByValue": True}
    found = json.loads(session.execute_cdp_cmd("Runtime.evaluate", options)["result"]["value"])
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node['html'][:150]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"][:3]
    ]


def take_pictures(session: Any, page: Path, folder: Path) -> None:
    """Pictures of the whole page in each width, in the dark, and as it is printed."""
    for width, dark in [*((width, False) for width in WIDTHS), (1280, True)]:
        show(session, page, width, dark)
        shot = {"format": "png", "captureBeyondViewport": True}
        picture = session.execute_cdp_cmd("Page.captureScreenshot", shot)["data"]
        name = f"{page.stem}-{width}{'-dark' if dark else ''}.png"
        folder.joinpath(name).write_bytes(base64.b64decode(picture))
    show(session, page, 1280, media="print")
    printed = session.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})["data"]
    folder.joinpath(f"{page.stem}.pdf").write_bytes(base64.b64decode(printed))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--axe", type=Path, help="axe.min.js of axe-core")
    parser.add_argument("--pictures", action="store_true")
    parser.add_argument("--pages", type=Path, nargs="*", help="these pages, not one of each kind")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    warnings.simplefilter("ignore", fedwad.DataWarning)  # the hospitals have conflicts
    pages, count = options.pages or write_pages(options.folder), 0
    with browser() as session:
        for page in pages:
            if options.pictures:
                take_pictures(session, page, options.folder)
            if options.axe is not None:
                axe = options.axe.read_text(encoding="utf-8")
                for width, dark in ((320, False), (1280, False), (1280, True)):
                    show(session, page, width, dark)
                    found = wrong(session, axe)
                    count += len(found)
                    for line in found:
                        print(f"{page.stem}, {width}{' dark' if dark else ''}: {line}")
    print(f"{len(pages)} pages, {count} serious findings")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
