"""The examples are tested on the oldest and on the newest revision, and on the one that has most in between."""

import pytest

REVISIONS = ("2024-11-05", "2025-11-25", "2026-07-28")


@pytest.fixture(params=REVISIONS)
def revision(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=REVISIONS[1:])
def asking_revision(request: pytest.FixtureRequest) -> str:
    """A revision that has forms."""
    return request.param
