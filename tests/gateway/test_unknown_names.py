"""Settings that would do nothing silently: each is warned of, or refused, when the gateway is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dovetail import Gateway, LocalError, Policy, Rule
from dovetail.gateway import Profile
from dovetail.gateway.unknown_names import unknown_names
from tests.gateway.gateway_process import configuration, odd

SERVERS = ["notes", "wiki"]


@pytest.mark.parametrize(
    ("profile", "warning"),
    [
        (
            Profile(servers=("note",)),
            "the profile 'p' names the server 'note', which does not exist; did you mean 'notes'?",
        ),
        (Profile(servers=("no*",)), None),
        (Profile(tools=("find",)), "the profile 'p' names the tool 'find' without its server: write `SERVER__find`"),
        (Profile(tools=("notes__find", "*")), None),
    ],
)
def test_a_profile_with_a_name_that_nothing_has_is_warned_of(profile: Profile, warning: str | None) -> None:
    assert unknown_names({"p": profile}, None, SERVERS) == ([] if warning is None else [warning])


@pytest.mark.parametrize(
    ("rule", "warning"),
    [
        (Rule("deny", server="note"), "names the server 'note', which does not exist; did you mean 'notes'?"),
        (
            Rule("deny", tool="notes__delete"),
            "names a tool with its server, which matches none: write `server` 'notes' and `tool` 'delete'",
        ),
        (Rule("deny", server="no*", tool="a__b"), None),
        (Rule("deny", tool="delete_*"), None),
    ],
)
def test_a_rule_with_a_name_that_nothing_has_is_warned_of(rule: Rule, warning: str | None) -> None:
    found = unknown_names({}, Policy([rule]), SERVERS)
    assert len(found) == (warning is not None)
    assert warning is None or (found[0].startswith("the rule 'deny ") and found[0].endswith(warning))


def test_what_does_nothing_is_in_the_log_of_a_gateway_from_a_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers: dict[str, Any] = {"works": odd("works"), "bad": {"url": "htp://x.example/mcp"}}
    rules = {"rules": [{"verdict": "deny", "server": "work", "tool": "echo"}]}
    Gateway.from_config(configuration(tmp_path, servers, policy=rules), trust=True)
    assert "names the server 'work', which does not exist; did you mean 'works'?" in caplog.text
    assert f"The server 'bad' cannot be used: {tmp_path / 'mcp.json'}:" in caplog.text


def test_two_files_with_settings_of_the_gateway_are_refused(tmp_path: Path) -> None:
    """One of them would be ignored, with its rules and its authentication."""
    files: list[Path] = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        files.append(configuration(folder, {f"works{number}": odd("works")}, name="team"))
    with pytest.raises(LocalError, match="each have a `gateway` object: only one file may have it"):
        Gateway.from_config(*files, trust=True)
