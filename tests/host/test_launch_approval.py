"""An approval is of a program and its code, not only of the words of a command."""

import os
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from dovetail.config.entries import ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.policy.approval_questions import LaunchQuestion, Question, Reply, Yes
from dovetail.policy.approvals import Approvals
from dovetail.policy.audit.log import Audit
from dovetail.protocol.errors import DovetailError
from tests.host.hosting import PROGRAMS, Somebody, hosting, records
from tests.support.waiting import until

pytestmark = pytest.mark.attack("M11")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(PROGRAMS / "plain.py", folder / "server.py")
    return folder


def server(project: Path, *command: str, **env: str) -> ServerEntry:
    words = command or (sys.executable, "server.py")
    return ServerEntry(key="a", spec=LaunchSpec(kind="stdio", command=words, cwd=str(project), env=env))


def always(question: Question) -> Reply:
    return Yes(remember="always" if isinstance(question, LaunchQuestion) else "once")


async def launches(folder: Path, entry: ServerEntry) -> list[LaunchQuestion]:
    """Start a server and call it; the launch questions that were asked."""
    user = Somebody(always)
    async with hosting(folder, entry, person=user) as host:
        assert (await host.call("a__add", a=1, b=2)).data == 3
    return [question for question in user.asked if isinstance(question, LaunchQuestion)]


async def test_a_changed_file_is_asked_about_again_and_the_change_is_shown(tmp_path: Path, project: Path) -> None:
    (first,) = await launches(tmp_path, server(project))
    assert first.spec.program == sys.executable
    assert list(first.spec.files) == [str(project / "server.py")]
    assert await launches(tmp_path, server(project)) == []
    with (project / "server.py").open("a") as file:
        file.write("# changed\n")
    (again,) = await launches(tmp_path, server(project))
    (change,) = again.changes
    assert change.startswith(f"The content of {project}/server.py has changed: SHA-256 ")
    assert records(Audit(folder=tmp_path / "user"), "launch")[-1]["details"]["spec"]["files"] == again.spec.files


async def test_another_program_of_that_name_is_asked_about(tmp_path: Path, project: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    tool = folders[1] / "mytool"
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    tool.chmod(0o755)
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    entry = server(project, "mytool", "server.py", PATH=path)
    (first,) = await launches(tmp_path, entry)
    assert first.spec.program == str(tool)
    shutil.copy(tool, folders[0] / "mytool")
    (again,) = await launches(tmp_path, entry)
    assert again.changes == [f"The program is now {folders[0]}/mytool; {tool} was approved."]


@pytest.mark.parametrize("element", ["", ".", "bin"])
async def test_a_program_of_the_project_is_not_found_through_a_relative_path_element(
    tmp_path: Path, project: Path, element: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = project / "it ran"
    for folder in (project, project / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "mytool").write_text(f'#!/bin/sh\ntouch "{ran}"\n')
        (folder / "mytool").chmod(0o755)
    monkeypatch.setenv("PATH", f"{element}{os.pathsep}{os.environ['PATH']}")
    user = Somebody(always)
    async with hosting(tmp_path, server(project, "mytool"), person=user) as host:
        with pytest.raises(DovetailError):
            await host.call("a__add", a=1, b=2)
    assert not ran.exists()


async def test_a_file_that_changes_while_the_question_is_open_is_not_started(tmp_path: Path, project: Path) -> None:
    asked: list[LaunchQuestion] = []

    def answer(question: Question) -> Reply:
        if isinstance(question, LaunchQuestion):
            asked.append(question)
            if len(asked) == 1:
                (project / "server.py").write_text(f"open({str(project / 'it ran')!r}, 'w')\n")
                return Yes()
            return False
        return True

    async with hosting(tmp_path, server(project), person=Somebody(answer)) as host:
        with pytest.raises(DovetailError):
            await host.call("a__add", a=1, b=2)
        await until(lambda: host.servers["a"].state == "failed")
    assert len(asked) == 2 and asked[0].spec.files != asked[1].spec.files
    assert not (project / "it ran").exists()


async def test_an_approval_of_an_earlier_version_is_asked_about_once_more(tmp_path: Path, project: Path) -> None:
    entry = server(project)
    assert entry.spec is not None
    Approvals(tmp_path / "user").approve("a", entry.spec)  # as it was stored then: without a program and files
    (question,) = await launches(tmp_path, entry)
    assert question.before == entry.spec
    assert question.changes == [
        "You approved this when an approval did not cover the program and its files. Now it does, so you are asked once"
        " more."
    ]
    assert await launches(tmp_path, entry) == []


async def test_trust_is_lost_with_the_content_and_answers_about_tools_are_kept(tmp_path: Path, project: Path) -> None:
    user = Somebody(lambda _: Yes(remember="always"))
    async with hosting(tmp_path, server(project), person=user) as host:
        await host.call("a__echo", text="x")
        await host.trust("a", True)
        assert host.servers["a"].trusted
    (project / "server.py").write_text((project / "server.py").read_text() + "# changed\n")
    user = Somebody(lambda _: Yes(remember="always"))
    async with hosting(tmp_path, server(project), person=user) as host:
        await host.call("a__echo", text="x")
        assert not host.servers["a"].trusted
    assert [type(question) for question in user.asked] == [LaunchQuestion]


def test_an_unresolved_launch_of_a_program_is_not_the_resolved_one(project: Path) -> None:
    spec = server(project).spec
    assert spec is not None
    assert msgspec.structs.replace(spec, program="/bin/x").digest != spec.digest
