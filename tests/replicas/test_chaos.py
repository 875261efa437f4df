"""A short run of `make chaos`: the history of every scenario keeps all rules."""

import argparse
import asyncio

import pytest

from tests.replicas.chaos import chaos
from tests.replicas.faults import SCENARIOS
from tests.support.nginx import needs_nginx
from tests.support.redis_server import needs_redis

pytestmark = [pytest.mark.slow, needs_nginx, needs_redis]


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "none"])
def test_replicas_that_fail_under_load_break_no_rule(scenario: str) -> None:
    options = argparse.Namespace(store="redis", replicas=3, clients=1, seed=1, gateway=None)
    assert asyncio.run(chaos(scenario, 20.0, options)) == []


@pytest.mark.parametrize("behind", ["2025-11-25", "2026-07-28"])
def test_gateways_that_are_killed_under_load_break_no_rule(behind: str) -> None:
    """Calls of clients go to any of three gateways, in front of one server that asks in the way of its revision."""
    options = argparse.Namespace(store="redis", replicas=3, clients=1, seed=1, gateway=behind)
    assert asyncio.run(chaos("killed", 15.0, options)) == []
