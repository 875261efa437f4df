"""What counts when the conformance suite is run: verdicts and not ticks, and no failure that nobody expected."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance import __main__ as runner
from conformance import expected_failures as expected_module
from conformance.expected_failures import Expected
from conformance.suite import Verdict, read_checks


def checks(folder: Path, *found: tuple[str, str]) -> list[Verdict]:
    path = folder / "checks.json"
    path.write_text(json.dumps([{"id": id, "status": status, "description": "what"} for id, status in found]))
    return read_checks(path, "scenario")


@pytest.fixture
def expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Expected:
    listed = tmp_path / "expected.toml"
    listed.write_text(
        '[[failure]]\nmode = "client"\nscenario = "auth/*"\nreason = "not built"\n'
        '[[failure]]\nmode = "server"\nscenario = "a"\ncheck = "one"\nreason = "their fault"\n'
    )
    monkeypatch.setattr(expected_module, "LIST", listed)
    return Expected()


class TestReading:
    def test_only_verdicts_count(self, tmp_path: Path) -> None:
        found = checks(tmp_path, ("a", "SUCCESS"), ("b", "INFO"), ("c", "WARNING"), ("d", "SKIPPED"), ("a", "FAILURE"))
        assert [(one.check, one.status) for one in found] == [("a", "SUCCESS"), ("c", "WARNING"), ("a", "FAILURE")]

    @pytest.mark.parametrize("found", [[], [("a", "SKIPPED")], [("a", "INFO"), ("wire-schema-valid", "SUCCESS")]])
    def test_a_scenario_that_checked_nothing_of_its_own_is_not_a_success(self, found: Any, tmp_path: Path) -> None:
        assert checks(tmp_path, *found)[-1].status == "UNCHECKED"


class TestExpecting:
    @pytest.mark.parametrize(
        ("mode", "scenario", "check", "covered"),
        [
            ("client", "auth/basic", "any", True),
            ("server", "auth/basic", "any", False),
            ("server", "a", "one", True),
            ("server", "a", "two", False),
            ("client", "initialize", "any", False),
        ],
    )
    def test_only_listed_failures_are_expected(
        self, mode: str, scenario: str, check: str, covered: bool, expected: Expected
    ) -> None:
        assert expected.covers(mode, Verdict(scenario, check, "FAILURE")) is covered

    def test_an_entry_that_nothing_fails_for_is_stale(self, expected: Expected) -> None:
        expected.covers("client", Verdict("auth/basic", "any", "FAILURE"))
        assert expected.stale() == ["server a"]
        assert expected.summary() == ["client auth/*: 1 expected, not built"]

    @pytest.mark.parametrize("status", ["FAILURE", "WARNING", "UNCHECKED"])
    def test_whatever_else_is_amiss_is_a_problem(self, status: str, expected: Expected) -> None:
        verdicts = [Verdict("a", "two", "SUCCESS"), Verdict("a", "one", status, "x"), Verdict("b", "one", status, "y")]
        lines, problems = runner.table([runner.Outcome("2026", "server", verdicts)], expected)
        assert lines[1].split()[:4] == ["2026", "server", "2", "1"] and lines[1].split()[-1] == "1"
        assert problems == [f"2026 server b:one {status}: y"]


def test_every_reason_is_given() -> None:
    assert all(reason.strip() for *_, reason in Expected().entries)


def test_two_runs_at_once_would_spoil_each_other(tmp_path: Path) -> None:
    with runner.alone(tmp_path), pytest.raises(SystemExit, match="Another run"), runner.alone(tmp_path):
        pytest.fail("both run")
    with runner.alone(tmp_path):
        pass
