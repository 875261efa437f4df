"""Approvals of launches, and trust."""

from pathlib import Path

import msgspec
import pytest

from dovetail.config.launch_spec import LaunchSpec
from dovetail.policy.approvals import FILE, MAX_EACH, Approvals

SPEC = LaunchSpec(kind="stdio", command=("npx", "server"), env={"A": "1"}, cwd="/x")


def test_an_approval_is_for_exactly_one_launch(tmp_path: Path) -> None:
    """CVE-2025-54136: approved once, the command changed later."""
    approvals = Approvals(tmp_path)
    assert not approvals.approved("files", SPEC)
    approvals.approve("files", SPEC)
    assert approvals.approved("files", SPEC)
    assert Approvals(tmp_path).approved("files", SPEC)
    assert not approvals.approved("other", SPEC)


@pytest.mark.parametrize(
    "changed",
    [
        {"command": ("npx", "evil")},
        {"command": ("npx", "server", "--more")},
        {"command": ("npx server",)},
        {"env": {"A": "2"}},
        {"env": {"A": "1", "LD_PRELOAD": "/evil.so"}},
        {"cwd": "/y"},
        {"kind": "http", "url": "https://evil"},
        {"headers": {"X": "y"}},
    ],
)
def test_whatever_changes_is_asked_again_and_shows_what_was(tmp_path: Path, changed: dict[str, object]) -> None:
    approvals = Approvals(tmp_path)
    approvals.approve("files", SPEC)
    new = msgspec.structs.replace(SPEC, **changed)
    assert not approvals.approved("files", new)
    assert approvals.before("files", new) == SPEC
    assert approvals.before("files", SPEC) is None


def test_two_projects_with_a_server_of_one_name(tmp_path: Path) -> None:
    approvals, other = Approvals(tmp_path), msgspec.structs.replace(SPEC, cwd="/other")
    approvals.approve("files", SPEC)
    approvals.approve("files", other)
    assert approvals.approved("files", SPEC) and approvals.approved("files", other)


def test_trust_belongs_to_a_launch(tmp_path: Path) -> None:
    approvals, other = Approvals(tmp_path), msgspec.structs.replace(SPEC, cwd="/other")
    assert not approvals.trust("files", SPEC, True), "what was not approved cannot be trusted"
    approvals.approve("files", SPEC)
    assert not approvals.trusted("files", SPEC)
    assert approvals.trust("files", SPEC, True)
    approvals.approve("files", SPEC)
    assert approvals.trusted("files", SPEC)
    approvals.approve("files", other)
    assert not approvals.trusted("files", other)
    approvals.trust("files", SPEC, False)
    assert not approvals.trusted("files", SPEC)


def test_taking_it_back(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    approvals.approve("files", SPEC)
    approvals.revoke("files")
    assert not approvals.approved("files", SPEC)


def test_secrets_are_not_written_down_a_second_time(tmp_path: Path) -> None:
    spec = LaunchSpec(
        kind="http",
        url="https://me:hunter2hunter2@example.com/",
        headers={"Authorization": "Bearer abcdefghijklmnop"},
        env={"GITHUB_TOKEN": "ghp_0123456789abcdefghij"},
    )
    approvals = Approvals(tmp_path)
    approvals.approve("api", spec)
    assert approvals.approved("api", spec)
    content = (tmp_path / FILE).read_text()
    assert not [secret for secret in ("hunter2", "abcdefghijklmnop", "0123456789") if secret in content]


def test_the_approvals_of_one_key_are_bounded(tmp_path: Path) -> None:
    approvals = Approvals(tmp_path)
    specs = [msgspec.structs.replace(SPEC, cwd=f"/{n}") for n in range(MAX_EACH + 1)]
    for spec in specs:
        approvals.approve("files", spec)
    assert not approvals.approved("files", specs[0])
    assert all(approvals.approved("files", spec) for spec in specs[1:])


def test_secrets_of_the_command_line_are_not_stored_or_logged(tmp_path: Path) -> None:
    spec = LaunchSpec(
        kind="stdio",
        command=("tool", "--token", "alpha7", "--verbose", "--api-key=bravo7", "-v"),
        env={"TOKEN": "charlie7"},
        headers={"Authorization": "delta7"},
    )
    Approvals(tmp_path).approve("a", spec)
    kept = (tmp_path / "approvals.json").read_text()
    for secret in ("alpha7", "bravo7", "charlie7", "delta7"):
        assert secret not in kept
        assert secret not in repr(spec)
    assert "--verbose" in kept
    assert Approvals(tmp_path).approved("a", spec)
