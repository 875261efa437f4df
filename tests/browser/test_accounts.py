"""Connecting an account of a gateway in a real browser: the pages, their forms, cookies and redirects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.chromium import BROWSER, DRIVER, Chromium, chromium
from tests.gateway.account_scene import account_scene
from tests.gateway.test_credentials import make_server

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="chromium is not installed; `.ci/browser` says how to get it"
    ),
]


@pytest.fixture
def browser() -> Iterator[Chromium]:
    with chromium() as opened:
        yield opened


async def log_in(browser: Chromium, user: str) -> None:
    """Log in at the authorization server whose page is shown, and allow what is asked."""
    await browser.type("user", user)
    await browser.click("Log in")
    await browser.click("Allow")


async def test_a_user_connects_an_account_and_the_call_goes_on(browser: Chromium) -> None:
    seen: list[str] = []

    async def connect(url: str) -> str:
        await browser.go(url)
        seen.append(await browser.text())
        await browser.click("Log in")
        await log_in(browser, "ann")
        seen.append(await browser.text())
        await browser.click("Connect")
        await log_in(browser, "ann-at-notes")
        seen.append(await browser.text())
        return url

    async with account_scene(make_server) as at, at.client("ann", connect) as ann:
        assert (await ann.call("notes__whoami")).text == "ann-at-notes"
        first, second, third = seen
        assert "You have been asked to connect your account at notes" in first
        assert "Connect your account at notes" in second
        assert "You are logged in as ann." in second
        assert "Your account is connected" in third
        # The cookie is that of the same user for the next page, and the link back leads there.
        await browser.go(f"{at.url}/accounts")
        assert "Disconnect" in await browser.text()
        await browser.click("Disconnect")
        assert "not connected" in await browser.text()
        assert [told for told in await browser.complaints() if "favicon" not in told] == []
