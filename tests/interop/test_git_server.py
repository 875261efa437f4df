"""Our client with mcp-server-git, which speaks both eras, in a repository of its own."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dovetail import Client, ToolFailed
from dovetail.client.blocking import BlockingClient
from tests.interop.peers import ENVELOPE, HANDSHAKE, tool_command

pytestmark = pytest.mark.interop


class Repository:
    """A fresh repository, and the server's tools on it."""

    def __init__(self, folder: Path, client: BlockingClient) -> None:
        self.folder = folder
        self.client = client

    def git(self, tool: str, path: Path | None = None, **arguments: object) -> str:
        return self.client.call(f"git_{tool}", {"repo_path": str(path or self.folder), **arguments}).text


@pytest.fixture(scope="module", params=[None, HANDSHAKE[-1]], ids=["probe", HANDSHAKE[-1]])
def repository(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repository]:
    folder = tmp_path_factory.mktemp("git") / "work"
    subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    for key, value in {"user.name": "Ada", "user.email": "ada@x.test"}.items():
        subprocess.run(["git", "-C", str(folder), "config", key, value], check=True)
    (folder / "poem.txt").write_text("roses\n")
    command = tool_command("mcp-server-git", "--repository", str(folder))
    with Client.blocking(command, revision=request.param, timeout=50) as client:
        assert client.revision == (request.param or ENVELOPE)
        yield Repository(folder, client)


def test_a_change_from_the_file_to_the_log(repository: Repository) -> None:
    git = repository.git
    assert len(repository.client.tools()) == 12
    assert "Untracked files" in git("status")
    git("add", files=["poem.txt"])
    assert "+roses" in git("diff_staged")
    assert "committed" in git("commit", message="A poem")
    assert "A poem" in git("log", max_count=1)
    (repository.folder / "poem.txt").write_text("violets\n")
    assert "-roses\n+violets" in git("diff_unstaged")
    git("create_branch", branch_name="spring")
    assert "spring" in git("branch", branch_type="local")
    assert "roses" in git("show", revision="HEAD")


def test_a_refusal_reaches_the_caller(repository: Repository) -> None:
    with pytest.raises(ToolFailed, match="outside the allowed repository"):
        repository.git("status", repository.folder.parent)
    with pytest.raises(ToolFailed, match="cannot start with '-'"):
        repository.git("diff", target="--output=stolen")
