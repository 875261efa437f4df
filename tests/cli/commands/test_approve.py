"""`dovetail approve`: launches are shown in full and approved, one by one."""

import json
import sys
from pathlib import Path

import pytest

from dovetail.policy.audit.verify import verify
from tests.cli.invoke import AtTerminal, Done, dovetail


class Project:
    """A configuration with two servers, and a user's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "mcp.json"
        self.home = folder / "home"
        (folder / "notes.py").write_text("print('notes')\n")
        self.configure()

    def configure(self, *arguments: str) -> None:
        servers = {
            "notes": {
                "command": sys.executable,
                "args": [str(self.folder / "notes.py"), *arguments],
                "env": {"NOTES_TOKEN": "sesame"},
            },
            "wiki": {"url": "https://wiki.example.com/mcp"},
            "off": {"command": "true", "disabled": True},
        }
        self.file.write_text(json.dumps({"mcpServers": servers}, indent=2))

    def approve(self, *words: str) -> Done:
        return dovetail("approve", str(self.file), *words, XDG_CONFIG_HOME=str(self.home))

    def approve_at_terminal(self, *words: str) -> AtTerminal:
        return AtTerminal("approve", str(self.file), *words, XDG_CONFIG_HOME=str(self.home))

    def states(self) -> dict[str, str]:
        return {one["key"]: one["state"] for one in self.approve("--yes", "--format", "json").result["servers"]}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_each_launch_is_shown_in_full_and_approved_by_itself(project: Project) -> None:
    with project.approve_at_terminal() as terminal:
        shown = terminal.answer("Approve it, now and in future? [y]es, [n]o: ", "y")
        assert str(project.folder / "notes.py") in shown and "SHA-256" in shown
        assert "NOTES_TOKEN=[redacted]" in shown and "sesame" not in shown
        shown = terminal.answer("Approve it, now and in future? [y]es, [n]o: ", "n")
        assert "https://wiki.example.com/mcp" in shown
        code, rest = terminal.end()
    assert code == 5 and "Not approved: wiki" in rest
    assert project.states() == {"notes": "approved before", "wiki": "approved"}


def test_without_a_terminal_the_launches_are_shown_and_nothing_is_approved(project: Project) -> None:
    done = project.approve()
    assert done.code == 5 and done.out == ""
    assert "https://wiki.example.com/mcp" in done.err and "--yes" in done.err
    assert "off" not in done.err, "a server that is disabled is left out"
    assert project.states() == {"notes": "approved", "wiki": "approved"}


def test_what_was_approved_is_not_asked_about_again(project: Project) -> None:
    assert project.approve("--yes").out.endswith("Approved: notes, wiki.\n")
    assert project.approve().out == "Approved before: notes, wiki.\n"


def test_a_launch_that_has_changed_is_shown_beside_the_one_that_was_approved(project: Project) -> None:
    project.approve("--yes")
    project.configure("--all")
    done = project.approve("notes")
    assert done.code == 5
    assert "--all" in done.err and "Previously approved" in done.err
    (project.folder / "notes.py").write_text("print('other code')\n")
    project.configure()
    done = project.approve("notes")
    assert done.code == 5 and "notes.py" in done.err and "changed" in done.err


def test_servers_are_chosen_by_name_also_one_that_is_disabled(project: Project) -> None:
    assert project.approve("off", "--yes").out.endswith("Approved: off.\n")
    done = project.approve("note", "--yes")
    assert done.code == 5 and done.err.endswith("has no server 'note'; did you mean notes?\n")


def test_each_approval_is_in_the_audit_log(project: Project) -> None:
    project.approve("--yes")
    project.approve("--yes")
    assert verify(folder=project.home / "dovetail").records == 3, "the first record is that of the log itself"


def test_a_file_that_cannot_be_read_is_named(project: Project) -> None:
    done = dovetail("approve", str(project.folder / "none.json"), "--yes", XDG_CONFIG_HOME=str(project.home))
    assert done.code != 0 and "none.json" in done.err and "No such file" in done.err
