"""Stores that several gateways share, and such gateways."""

from __future__ import annotations

from tests.gateway.replica_gateways import gateways  # noqa: F401
from tests.server.mrtr.conftest import store  # noqa: F401
