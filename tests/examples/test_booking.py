"""examples/booking.py: two questions, one payment, on every revision that can ask."""

import sys
from pathlib import Path

import pytest

from dovetail import Client, ToolFailed
from dovetail.testing import Script
from examples import booking

STAY = {"arrival": "2026-08-01", "nights": 3, "room": "garden"}


@pytest.fixture(autouse=True)
def ledger(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    ledger: list[str] = []
    monkeypatch.setattr(booking, "ledger", ledger)
    return ledger


async def test_a_room_is_booked_and_paid_once(asking_revision: str, ledger: list[str]) -> None:
    script = Script()
    script.elicit("When do you come to Lima", STAY).elicit("3 nights from 2026-08-01 cost 270", {"pay": True})
    async with Client(booking.server, revision=asking_revision, **script.options) as c:
        assert (await c.call("book", city="Lima")).data == "Booked under B-0001: Lima, 2026-08-01, 270 EUR."
    script.check()
    assert ledger == ["Lima: 270"]


async def test_defaults_are_filled_in(asking_revision: str, ledger: list[str]) -> None:
    script = Script().elicit("When", {"arrival": "2026-08-01"}).elicit("1 nights", {"pay": True})
    async with Client(booking.server, revision=asking_revision, **script.options) as c:
        assert "90 EUR" in (await c.call("book", city="Lima")).text
    assert ledger == ["Lima: 90"]


@pytest.mark.parametrize("answers", [["decline"], ["cancel"], [STAY, "decline"], [STAY, {"pay": False}]])
async def test_a_user_who_declines_pays_nothing(asking_revision: str, answers: list, ledger: list[str]) -> None:
    script = Script()
    for answer in answers:
        script.elicit(None, answer)
    async with Client(booking.server, revision=asking_revision, **script.options) as c:
        assert (await c.call("book", city="Lima")).data == "Nothing is booked."
    script.check()
    assert ledger == []


async def test_the_first_revision_has_no_forms() -> None:
    script = Script().elicit(None, STAY, times=None)
    async with Client(booking.server, revision="2024-11-05", **script.options) as c:
        with pytest.raises(ToolFailed, match="Revision 2024-11-05 has no elicitation"):
            await c.call("book", city="Lima")


async def test_a_booking_works_over_stdio(asking_revision: str) -> None:
    script = Script().elicit("When", STAY).elicit("cost 270", {"pay": True})
    target = [sys.executable, str(Path(booking.__file__))]
    async with Client(target, revision=asking_revision, **script.options) as c:
        assert "270 EUR" in (await c.call("book", city="Lima")).text
