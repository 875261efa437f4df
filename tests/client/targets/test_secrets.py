"""Values that a person gives."""

import asyncio
import os
from pathlib import Path

import pytest

from dovetail.client.auth.token_store import FileTokens, MemoryTokens
from dovetail.client.targets.secrets import FILES_VARIABLE, MissingSecret, Secrets, variable_for
from dovetail.config.entries import Input, Origin, ServerEntry
from dovetail.config.launch_spec import LaunchSpec
from dovetail.protocol.errors import LocalError

KEY = Input(id="api-key", origin=Origin("/x/mcp.json", 3), description="The key")
REGION = Input(id="region", origin=Origin("/x/mcp.json", 4), options=("eu", "us"), secret=False, default="eu")

LISTED = {FILES_VARIABLE: os.pathsep.join(["/other/mcp.json", "/x/mcp.json"])}


def entry(*inputs: Input) -> ServerEntry:
    names = {each.id: f"<${{input:{each.id}}}>" for each in inputs}
    return ServerEntry(
        key="inn",
        spec=LaunchSpec(kind="stdio", command=("x", *names.values()), env=names, cwd="/${input:api-key}", url="u"),
        inputs=inputs,
    )


def test_filled_in_everywhere_and_only_once() -> None:
    async def main() -> LaunchSpec:
        secrets = Secrets(MemoryTokens(), environ={})
        await secrets.give(KEY, "s3cret${input:region}")
        return await secrets.fill(entry(KEY, REGION))

    spec = asyncio.run(main())
    assert spec.command == ("x", "<s3cret${input:region}>", "<eu>")
    assert spec.env == {"api-key": "<s3cret${input:region}>", "region": "<eu>"}
    assert spec.cwd == "/s3cret${input:region}"


def test_asked_for_once_by_servers_that_start_side_by_side() -> None:
    asked: list[tuple[str, str]] = []

    async def ask(server: str, wanted: Input) -> str:
        asked.append((server, wanted.id))
        await asyncio.sleep(0)
        return "typed"

    async def main() -> list[LaunchSpec]:
        store = MemoryTokens()
        secrets = Secrets(store, on_input=ask, environ={})
        specs = await asyncio.gather(*(secrets.fill(entry(KEY)) for _ in range(3)))
        return [*specs, await Secrets(store, environ={}).fill(entry(KEY))]

    assert {spec.command for spec in asyncio.run(main())} == {("x", "<typed>")}
    assert asked == [("inn", "api-key")]


@pytest.mark.parametrize("on_input", [None, lambda *_: None])
def test_a_missing_one_says_which_and_how_to_give_it(on_input: None) -> None:
    with pytest.raises(MissingSecret) as caught:
        asyncio.run(Secrets(MemoryTokens(), on_input=on_input, environ={}).fill(entry(KEY)))
    assert (caught.value.server, caught.value.input) == ("inn", KEY)
    for words in (
        "'inn'",
        "'api-key' (The key)",
        "/x/mcp.json:3",
        "dovetail enable inn --ask",
        "DOVETAIL_INPUT_API_KEY and DOVETAIL_INPUT_FILES=/x/mcp.json",
    ):
        assert words in str(caught.value)


def test_another_file_gets_another_value() -> None:
    other = Input(id="api-key", origin=Origin("/evil/mcp.json", 3))

    async def main() -> str | None:
        secrets = Secrets(MemoryTokens(), environ={})
        await secrets.give(KEY, "s3cret")
        return await secrets.known(other)

    assert asyncio.run(main()) is None


def test_a_variable_goes_before_what_is_kept() -> None:
    async def main() -> str | None:
        secrets = Secrets(MemoryTokens(), environ={variable_for(KEY): "from outside", **LISTED})
        await secrets.give(KEY, "kept")
        return await secrets.known(KEY)

    assert asyncio.run(main()) == "from outside"


def test_a_choice_is_one_of_those_that_there_are() -> None:
    async def main() -> str | None:
        store = MemoryTokens()
        secrets = Secrets(store, environ={})
        with pytest.raises(LocalError, match="one of eu, us"):
            await secrets.give(REGION, "mars")
        await secrets.give(Input(id="region", origin=REGION.origin), "mars")  # before the choices were there
        return await secrets.known(REGION)

    assert asyncio.run(main()) is None


def test_forgotten() -> None:
    async def main() -> str | None:
        secrets = Secrets(MemoryTokens(), environ={})
        await secrets.give(KEY, "x")
        await secrets.give(KEY, None)
        return await secrets.known(KEY)

    assert asyncio.run(main()) is None


def test_kept_between_starts_and_never_in_the_clear(tmp_path: Path) -> None:
    async def give() -> None:
        await Secrets(FileTokens(tmp_path / "inputs", {}), environ={}).give(KEY, "s3cret-value")

    asyncio.run(give())
    assert asyncio.run(Secrets(FileTokens(tmp_path / "inputs", {}), environ={}).known(KEY)) == "s3cret-value"
    assert all(b"s3cret-value" not in file.read_bytes() for file in tmp_path.iterdir())


def test_what_cannot_be_started_is_not_filled_in() -> None:
    broken = ServerEntry(key="inn", spec=None, problem="x:1: no")
    with pytest.raises(LocalError, match="x:1: no"):
        asyncio.run(Secrets(MemoryTokens(), environ={}).fill(broken))


def test_a_file_is_the_same_by_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    real.write_text("{}")
    link.symlink_to(real)

    async def main() -> str | None:
        secrets = Secrets(MemoryTokens(), environ={})
        await secrets.give(Input(id="a", origin=Origin(str(real))), "s3cret")
        return await secrets.known(Input(id="a", origin=Origin(str(link))))

    assert asyncio.run(main()) == "s3cret"


def test_a_variable_is_to_be_one_of_the_options() -> None:
    secrets = Secrets(MemoryTokens(), environ={"DOVETAIL_INPUT_REGION": "mars", **LISTED})
    with pytest.raises(LocalError, match="DOVETAIL_INPUT_REGION is to be one of eu, us"):
        asyncio.run(secrets.known(REGION))


@pytest.mark.attack("L11")
def test_a_variable_fills_no_input_of_a_file_that_nobody_has_listed(tmp_path: Path) -> None:
    """A project that names an input as another file does is not given the value of that one."""
    environ = {"HOME": str(tmp_path), "DOVETAIL_INPUT_TOKEN": "the token of another server"}
    project = Input(id="token", origin=Origin(str(tmp_path / "project" / ".mcp.json"), 3))
    own = Input(id="token", origin=Origin(str(tmp_path / ".claude.json"), 3))
    for listed in ("", str(tmp_path / "other.json"), "project/.mcp.json", os.pathsep):
        secrets = Secrets(MemoryTokens(), environ={**environ, FILES_VARIABLE: listed})
        assert asyncio.run(secrets.known(project)) is None
    assert asyncio.run(secrets.known(own)) == "the token of another server"
    secrets = Secrets(MemoryTokens(), environ={**environ, FILES_VARIABLE: str(tmp_path / "project" / ".mcp.json")})
    assert asyncio.run(secrets.known(project)) == "the token of another server"
