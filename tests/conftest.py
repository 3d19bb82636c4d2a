"""Settings for all tests."""

import hashlib
import logging
import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile(
    "search", settings.get_profile("repeatable"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("FEDWAD_HYPOTHESIS", "repeatable"))


@pytest.fixture(autouse=True, scope="session")
def own_state(tmp_path_factory):
    """Commands keep what sites agreed on in a folder of the tests, not of whoever runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def own_log():
    """Commands in this process that print the log leave it as it was for the next test."""
    logger = logging.getLogger("fedwad")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers = handlers


@pytest.fixture(autouse=True)
def repeatable_noise(monkeypatch):
    """Sites in this process draw private noise from a seed, so that no test can fail by chance.

    The seed depends on the data, the question and how often it came: not on the order in which
    threads ask. FEDWAD_NOISE_SEED gives other noise. Nodes that are processes draw real noise.
    """
    from fedwad.site import answers as private

    drawn = {}

    def seeded(points, *question):
        content = points.tobytes() + repr((points.shape, *question)).encode()
        key = hashlib.sha256(content).digest()
        drawn[key] = drawn.get(key, 0) + 1
        own = int(os.environ.get("FEDWAD_NOISE_SEED", "0"))
        return np.random.default_rng([own, drawn[key], *key]).bytes

    def release(points, *rest, classes=None):
        return private_release(points, *rest, seeded(points, *rest), classes)

    def release_schema(points, draft, mu):
        return schema_release(points, draft, mu, seeded(points, draft.to_toml(), mu))

    def release_columns(points, columns, mu):
        return columns_release(points, columns, mu, seeded(points, *map(repr, columns), mu))

    private_release, schema_release = private.release, private.release_schema
    columns_release = private.release_columns
    monkeypatch.setattr(private, "release", release)
    monkeypatch.setattr(private, "release_columns", release_columns)
    monkeypatch.setattr(private, "release_schema", release_schema)


@pytest.fixture(scope="session")
def digits():
    """Digits 0-4 and 5-9, about 900 images each."""
    import fedwad

    images, labels = fedwad.datasets.load("digits")
    return images[labels < 5], images[labels >= 5]


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Headless Chromium without a network, driven by Selenium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip(
            "there is no chromium with chromedriver (Debian: apt-get install chromium chromium-driver)"
        )
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    session = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        session.execute_cdp_cmd("Network.enable", {})
        dark_network = {
            "offline": True,
            "latency": 0,
            "downloadThroughput": 0,
            "uploadThroughput": 0,
        }
        session.execute_cdp_cmd("Network.emulateNetworkConditions", dark_network)
        yield session
    finally:
        session.quit()


@pytest.fixture(scope="session")
def records():
    """Data of the audit: the two sets of its table, 200 records each."""
    import fedwad

    images, _ = fedwad.datasets.load("digits")
    rng = np.random.default_rng(0)
    return {
        "gaussian": rng.standard_normal((200, 2)),
        "digits": images[rng.permutation(len(images))[:200]].astype(float),
    }
