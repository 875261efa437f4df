"""Six clients of others on the tour of compat/server.py; `make compat` does the same with all of them.

The tour must end as the table says: an expected failure that no longer occurs fails as well.
"""

from pathlib import Path

import pytest

from compat.clients import CLIENTS, QUICK
from compat.install import folder, is_installed
from compat.results import Result, judge
from compat.visits import tour

pytestmark = pytest.mark.interop

BY_SLUG = {client.slug: client for client in CLIENTS}


@pytest.mark.parametrize("slug", QUICK)
async def test_a_client_of_others_makes_the_tour_as_the_table_says(slug: str, tmp_path: Path) -> None:
    client = BY_SLUG[slug]
    transport, mode = QUICK[slug]
    if not is_installed(client.environment):
        pytest.fail(f"{slug} is missing: `make peers` installs the other implementations", pytrace=False)
    visit = await tour(client, folder(client.environment), transport, mode, tmp_path)
    passed = sum(not error for error in visit.checks.values())
    assert judge(Result("clients", slug, [visit]), client.expected) == []
    assert passed >= 35
