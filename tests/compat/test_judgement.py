"""What makes `make compat` fail: a failure that nobody expected, and an expected one that does not occur."""

import asyncio
from pathlib import Path

import pytest

from compat import processes
from compat.clients import CLIENTS, QUICK
from compat.entries import Environment, Expected, ThirdPartyClient, slug
from compat.install import InstallError, interpreter, is_installed
from compat.processes import run, unexpected_errors
from compat.report import connects
from compat.results import Result, Visit, judge
from compat.servers import ENDPOINTS, SERVERS
from compat.visits import fill, filled

DRIVERS = Path(processes.__file__).parent / "drivers"


def result(*visits: Visit) -> Result:
    return Result("clients", "peer-1", list(visits))


def test_a_failure_that_nobody_expected_is_a_problem() -> None:
    visit = Visit("http", "auto", "2026-07-28", {"connect": "", "ping": "no answer"})
    assert judge(result(visit), []) == ["peer-1 over http auto: ping: no answer"]


def test_an_expected_failure_is_no_problem_on_its_transports_and_revisions_only() -> None:
    entry = Expected("ping", "it has none", ("http",), ("2026-07-28",))
    failed = {"ping": "no answer"}
    assert judge(result(Visit("http", "", "2026-07-28", failed)), [entry]) == []
    assert len(judge(result(Visit("stdio", "", "2026-07-28", failed)), [entry])) == 1
    assert len(judge(result(Visit("http", "", "2025-11-25", failed)), [entry])) == 1


def test_an_expected_failure_that_does_not_occur_is_a_problem() -> None:
    entry = Expected("ping", "it has none")
    passed = result(Visit("stdio", "", None, {"ping": ""}))
    assert judge(passed, [entry]) == ["peer-1: ping over stdio is expected to fail (it has none), and does not"]
    assert judge(passed, [Expected("ping", "a race of theirs", sometimes=True)]) == []


def test_an_expected_failure_of_a_check_that_there_is_no_more_is_a_problem() -> None:
    assert len(judge(result(Visit("stdio", "", None, {"ping": ""})), [Expected("pong", "it has none")])) == 1


def test_a_client_that_cannot_be_installed_is_a_problem() -> None:
    assert judge(Result("clients", "peer-1", [], "there is no such version"), []) == [
        "peer-1: there is no such version"
    ]
    assert not connects(Result("clients", "peer-1", [], "there is no such version"))


def test_the_tables_name_every_peer_once_and_every_driver_exists() -> None:
    assert (len(CLIENTS), len(SERVERS), len(ENDPOINTS)) == (54, 60, 28)
    peers = [*CLIENTS, *SERVERS, *ENDPOINTS]
    assert len({(type(peer), peer.slug) for peer in peers}) == len(peers)
    assert all((DRIVERS / client.driver).exists() for client in CLIENTS)
    assert len(QUICK) == 6
    known = {client.slug: client for client in CLIENTS}
    assert all(route in known[name].visits for name, route in QUICK.items())


def test_a_client_is_met_on_every_transport_in_every_mode() -> None:
    client = ThirdPartyClient(
        name="@peer/x", version="1", packages=(), driver="x.py", transports=("stdio", "http"), modes=("auto", "legacy")
    )
    assert client.slug == slug("@peer/x-1") == "peer-x-1"
    assert client.visits == (("stdio", "auto"), ("http", "auto"), ("stdio", "legacy"), ("http", "legacy"))


def test_only_errors_that_no_tool_makes_on_purpose_are_unexpected(tmp_path: Path) -> None:
    log = tmp_path / "log"
    trace = "Traceback (most recent call last):\n  File x\n"
    log.write_text(f"{trace}ZeroDivisionError: division by zero\n")
    assert unexpected_errors(log) == ""
    log.write_text(f"{trace}ZeroDivisionError: division by zero\n{trace}KeyError: 'x'\n")
    assert "KeyError" in unexpected_errors(log)


async def test_a_program_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    script = "sleep 60 & echo $! > child; sleep 60"
    problem = await run(["bash", "-c", script], 1, tmp_path / "log", cwd=tmp_path, env={"PATH": "/usr/bin:/bin"})
    assert problem == "it ran longer than 1 s"
    child = int((tmp_path / "child").read_text())
    async with asyncio.timeout(10):
        while Path(f"/proc/{child}/stat").exists() and ") Z " not in Path(f"/proc/{child}/stat").read_text():
            await asyncio.sleep(0.05)


def test_words_of_the_tables_are_filled_in_everywhere(tmp_path: Path) -> None:
    fill(tmp_path)
    words = {"work": str(tmp_path), "port": "8080"}
    value = {"paths": ["{work}/page.html"], "port": "{port}", "number": 3}
    assert filled(value, words) == {"paths": [f"{tmp_path}/page.html"], "port": "8080", "number": 3}
    assert (tmp_path / "page.html").exists()
    assert (tmp_path / "repository" / ".git").is_dir()


def test_an_interpreter_that_is_not_there_is_reported_with_its_version() -> None:
    assert interpreter("")
    with pytest.raises(InstallError, match=r"it needs Python 3\.2, which is not installed here"):
        interpreter("3.2")
    assert not is_installed(Environment("no-such-peer", "pypi", ("x",)))
