"""Isolation between clients as a matrix: each subject × with and without a store × one worker and two.

Clients are told apart by their principals, or without authentication by their addresses. `NOT_BY_ADDRESS` says why a
subject has no cells for addresses; every other cell is a test. What `ann` has is out of reach of `bob`, and `eve`, who
uses up all that one client gets, takes nothing from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.isolation import ownership, shares
from tests.isolation.isolation_setup import CONFIGURATIONS, Configuration, Place

SUBJECTS: dict[str, Callable[[Place], None]] = {
    "sessions": ownership.sessions,
    "streams": ownership.streams,
    "questions": ownership.questions,
    "sealed states": ownership.states,
    "subscriptions": ownership.subscriptions,
    "visibility of resources in updates": ownership.updates,
    "caches of the server": ownership.server_caches,
    "caches of clients": ownership.client_caches,
    "cursors": ownership.cursors,
    "log messages": ownership.logs,
    "number of sessions": shares.session_limit,
    "number of connections": shares.connection_limit,
    "number of streams": shares.stream_limit,
    "rate limits": shares.rate_limit,
    "completions": shares.completion_limit,
    "threads": shares.threads,
}

_ID_IS_THE_CREDENTIAL = "without authentication whoever knows the id of a session, or a state, may use it"
_ONE_VIEW = "without authentication there is no principal, and everybody sees the same"

NOT_BY_ADDRESS: dict[str, str] = {
    "sessions": _ID_IS_THE_CREDENTIAL,
    "streams": _ID_IS_THE_CREDENTIAL,
    "questions": _ID_IS_THE_CREDENTIAL,
    "sealed states": _ID_IS_THE_CREDENTIAL,
    "subscriptions": _ONE_VIEW,
    "visibility of resources in updates": _ONE_VIEW,
    "caches of the server": _ONE_VIEW,
    "caches of clients": _ONE_VIEW,
    "cursors": _ONE_VIEW,
    "log messages": _ID_IS_THE_CREDENTIAL,
}

ENTRIES: dict[str, tuple[str, ...]] = {
    "sealed states": ("H2",),
    "visibility of resources in updates": ("M5",),
    "cursors": ("M12",),
    "number of sessions": ("M10",),
    "number of connections": ("M10",),
    "number of streams": ("M10",),
    "threads": ("L2",),
}


def cells() -> Iterator[object]:
    """The cells of the matrix, all those of one server together."""
    for configuration in CONFIGURATIONS:
        for subject in SUBJECTS:
            if configuration.clients == "principals" or subject not in NOT_BY_ADDRESS:
                marks = [pytest.mark.attack(*ENTRIES[subject])] if subject in ENTRIES else []
                yield pytest.param(configuration, subject, id=f"{subject}: {configuration}", marks=marks)


class Places:
    """The server of one configuration at a time: cells of the same one share it."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._place: Place | None = None

    def get(self, configuration: Configuration) -> Place:
        if self._place is None or self._place.configuration != configuration:
            self.close()
            self._place = Place(configuration, self._folders.mktemp("isolation"))
        return self._place

    def close(self) -> None:
        if self._place is not None:
            with self._place.server as server:
                assert "Traceback" not in server.stderr, server.stderr


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    places = Places(tmp_path_factory)
    yield places
    places.close()


@pytest.mark.parametrize(("configuration", "subject"), list(cells()))
def test_one_client_does_not_affect_another(places: Places, configuration: Configuration, subject: str) -> None:
    SUBJECTS[subject](places.get(configuration))


def test_every_subject_without_addresses_has_a_reason() -> None:
    assert all(subject in SUBJECTS and reason for subject, reason in NOT_BY_ADDRESS.items())
