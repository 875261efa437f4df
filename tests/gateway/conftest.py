"""Stores that several gateways share."""

from __future__ import annotations

from tests.server.mrtr.conftest import store  # noqa: F401
