"""Secrets in the values of a server."""

from dovetail.config.secret_inputs import extract_secrets, secrets_left_in_file


def test_a_secret_gives_way_to_an_input() -> None:
    server = {
        "command": "x",
        "env": {"API_KEY": "abc", "MODE": "fast", "TOKEN": "${TOKEN}", "PASSWORD": "", "X": "ghp_" + "a" * 30, "N": 3},
        "headers": {"Authorization": "Bearer abc.def", "Accept": "text/html"},
    }
    changed, hidden = extract_secrets("My Server", server, ["my-server-api-key"])
    assert changed["env"] == {
        "API_KEY": "${input:my-server-api-key-2}",
        "MODE": "fast",
        "TOKEN": "${TOKEN}",
        "PASSWORD": "",
        "X": "${input:my-server-x}",
        "N": 3,
    }
    assert changed["headers"] == {"Authorization": "Bearer ${input:my-server-authorization}", "Accept": "text/html"}
    assert {each.where: each.value for each in hidden} == {
        "env.API_KEY": "abc",
        "env.X": "ghp_" + "a" * 30,
        "headers.Authorization": "abc.def",
    }
    assert server["env"]["API_KEY"] == "abc"
    assert hidden[0].declaration("My Server") == {
        "type": "promptString",
        "id": "my-server-api-key-2",
        "description": "API_KEY of My Server",
        "password": True,
    }


def test_a_server_without_secrets_stays_as_it_is() -> None:
    server = {"command": "x", "env": None, "headers": {"a": "b"}}
    assert extract_secrets("a", server, []) == (server, [])


def test_arguments_are_only_told_of() -> None:
    args = ["--api-key", "abc", "--token=xyz", "--mode", "fast", "sk-" + "a" * 20, "--password", "${P}"]
    assert secrets_left_in_file({"args": args}) == ["args.1", "args.2", "args.5"]
    assert secrets_left_in_file({}) == []
