"""A real Chromium for the tests marked ``browser``; without one they are left out, loudly."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_LEFT_OUT = pytest.StashKey[int]()


def _programs() -> tuple[str, str] | None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _programs() is not None:
        return
    browser = [item for item in items if item.get_closest_marker("browser")]
    config.stash[_LEFT_OUT] = len(browser)
    config.hook.pytest_deselected(items=browser)
    items[:] = [item for item in items if item not in browser]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    count = config.stash.get(_LEFT_OUT, 0)
    if count:
        terminalreporter.section("NOT TESTED: the report page", yellow=True)
        terminalreporter.line(
            f"{count} browser tests were left out: no chromium and chromedriver on this machine"
        )


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser, driven over WebDriver, that logs what pages ask for and complain of."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    programs = _programs()
    assert programs is not None
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(programs[1]))
    yield driver
    driver.quit()


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder
