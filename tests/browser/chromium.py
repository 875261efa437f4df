"""A real browser: Debian's chromium without a screen, with a new profile each time."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from typing import TypeVar

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

BROWSER = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
PATIENCE = 30.0
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)

T = TypeVar("T")


class Chromium:
    """The browser of one user; each step is taken in a thread, for it waits."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    async def go(self, url: str) -> None:
        """Open a page, and wait until it is there."""
        await asyncio.to_thread(self._driver.get, url)

    async def type(self, name: str, text: str) -> None:
        """Write into a field."""
        await asyncio.to_thread(lambda: self._driver.find_element(By.NAME, name).send_keys(text))

    async def click(self, words: str) -> None:
        """Press the button with these words, and wait for the page that comes then."""

        def click() -> None:
            before = self._driver.find_element(By.TAG_NAME, "html").id
            self._driver.find_element(By.XPATH, f"//button[text()={words!r}]").click()
            self._until(lambda: self._driver.find_element(By.TAG_NAME, "html").id != before)

        await asyncio.to_thread(click)

    async def title(self) -> str:
        return await asyncio.to_thread(lambda: self._driver.title)

    async def text(self) -> str:
        """What a user can read on the page."""
        return await asyncio.to_thread(lambda: self._driver.find_element(By.TAG_NAME, "body").text)

    async def url(self) -> str:
        return await asyncio.to_thread(lambda: self._driver.current_url)

    async def complaints(self) -> list[str]:
        """What the browser did not like, such as what a policy forbids."""
        return await asyncio.to_thread(lambda: [entry["message"] for entry in self._driver.get_log("browser")])

    def _until(self, true: Callable[[], bool]) -> None:
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException

        waiting = WebDriverWait(self._driver, PATIENCE, 0.02, (NoSuchElementException, StaleElementReferenceException))
        waiting.until(lambda _: true())


@contextlib.contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser that nobody used before."""
    assert BROWSER is not None and DRIVER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = BROWSER
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for option in (*_OPTIONS, f"--user-data-dir={profile}"):
            options.add_argument(option)
        driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            yield Chromium(driver)
        finally:
            driver.quit()
