"""What servers see of the environment."""

from dovetail.host.servers.environment import shared_environment


def test_what_a_program_needs_and_nothing_that_was_meant_for_another() -> None:
    needed = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "LC_ALL": "C",
        "XDG_CACHE_HOME": "/c",
        "https_proxy": "http://p",
        "PYTHONPATH": "/lib",
        "NODE_EXTRA_CA_CERTS": "/ca",
    }
    kept_back = {
        "OPENAI_API_KEY": "1",
        "AWS_SECRET_ACCESS_KEY": "2",
        "GITHUB_TOKEN": "3",
        "SSH_AUTH_SOCK": "4",
        "NODE_AUTH_TOKEN": "5",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ANYTHING": "6",
    }
    assert shared_environment({**needed, **kept_back}) == needed
