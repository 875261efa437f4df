"""Environment variables that a server which is started as a program gets."""

import logging
import os
import sys
from pathlib import Path

import pytest

from dovetail import Client
from dovetail.client.targets import environment
from dovetail.client.targets.environment import shared_environment, without_credentials

SECRETS = {
    "OPENAI_API_KEY": "1",
    "AWS_SECRET_ACCESS_KEY": "2",
    "GITHUB_TOKEN": "3",
    "SSH_AUTH_SOCK": "4",
    "NODE_AUTH_TOKEN": "5",
    "DATABASE_URL": "postgres://u:pw@db",
    "ANYTHING": "6",
}

PROGRAM = """
import os
from dovetail import Server

server = Server("environment")

@server.tool
def variables() -> dict[str, str]:
    return dict(os.environ)

server.run()
"""


@pytest.fixture(autouse=True)
def no_earlier_warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_warned", set[str]())


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    return [sys.executable, str(tmp_path / "program.py")]


async def variables(client: Client) -> dict[str, str]:
    async with client:
        return (await client.call("variables")).data


def test_a_program_gets_what_it_needs_and_nothing_that_was_meant_for_another() -> None:
    needed = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/c",
        "https_proxy": "http://p",
        "PYTHONPATH": "/lib",
        "NODE_EXTRA_CA_CERTS": "/ca",
    }
    assert shared_environment({**needed, **SECRETS, "PYTHONDONTWRITEBYTECODE": "1"}) == needed


@pytest.mark.attack("L10")
@pytest.mark.parametrize(
    ("given", "shared"),
    [
        ("http://user:pw@proxy:3128", "http://proxy:3128"),
        ("http://user:pw@proxy:3128/", "http://proxy:3128/"),
        ("socks5h://user@proxy", "socks5h://proxy"),
        ("user:pw@proxy:3128", "proxy:3128"),
        ("http://user:p/w@proxy", "http://proxy"),
        ("http://user:p@w@proxy", "http://proxy"),
        ("http://user:p://w@proxy", "http://proxy"),
        ("//user:pw@proxy", "proxy"),
        ("http://proxy:3128", "http://proxy:3128"),
        ("localhost,.example.com", "localhost,.example.com"),
    ],
)
def test_a_proxy_is_handed_on_without_credentials(given: str, shared: str) -> None:
    assert shared_environment({"HTTPS_PROXY": given}) == {"HTTPS_PROXY": shared}
    assert shared_environment({"all_proxy": given}) == {"all_proxy": shared}


@pytest.mark.attack("L10")
def test_the_address_of_a_registry_is_handed_on_without_credentials() -> None:
    given = {"NPM_CONFIG_REGISTRY": "https://me:pw@npm.example.com/@scope/x"}
    assert shared_environment(given) == {"NPM_CONFIG_REGISTRY": "https://npm.example.com/@scope/x"}
    assert without_credentials("HOME", "/home/me@work") == "/home/me@work"


def test_removed_credentials_are_warned_of_once_and_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dovetail"):
        for _ in range(3):
            shared_environment({"HTTPS_PROXY": "http://user:hunter2@proxy", "HTTP_PROXY": "http://proxy"})
    assert [record.getMessage() for record in caplog.records] == [
        "Servers get HTTPS_PROXY without its credentials; set it in env for a server that needs them"
    ]


@pytest.mark.attack("L10")
async def test_a_client_hands_on_no_variable_that_its_server_does_not_need(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pw@127.0.0.1:9")
    got = await variables(Client(command, env={"ADDED": "yes", "GITHUB_TOKEN": "its own"}))
    assert got["GITHUB_TOKEN"] == "its own"
    assert not (SECRETS.keys() - {"GITHUB_TOKEN"}) & got.keys()
    assert got["HTTPS_PROXY"] == "http://127.0.0.1:9"
    assert got["ADDED"] == "yes"
    assert got["PATH"] == os.environ["PATH"]


async def test_a_client_hands_on_everything_with_inherit_env(
    monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTPS_PROXY", "http://user:pw@127.0.0.1:9")
    got = await variables(Client(command, env={"ANYTHING": "changed"}, inherit_env=True))
    assert {**SECRETS, "ANYTHING": "changed"}.items() <= got.items()
    assert got["HTTPS_PROXY"] == "http://user:pw@127.0.0.1:9"
