"""Where logins are kept: readable by the user alone, and never there in part."""

import asyncio
import os
import stat
import sys
from pathlib import Path

import pytest

from dovetail.client.auth.encryption_keys import KEY_VARIABLE, StoreUnreadable
from dovetail.client.auth.token_store import FileTokens, MemoryTokens, TokenStore, account_name, default_tokens
from dovetail.protocol.errors import LocalError

KEY = "k" * 32


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own keyring is none of our business; test_system_keyring.py has another."""
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=["memory", "file", "file with a key"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TokenStore:
    if request.param == "memory":
        return MemoryTokens()
    return FileTokens(tmp_path / "in" / "accounts", {KEY_VARIABLE: KEY} if "key" in request.param else {})


class TestEveryStore:
    async def test_it_keeps_and_forgets(self, store: TokenStore):
        assert await store.load("a") is None
        await store.save("a", b"1")
        await store.save("b", b"2")
        await store.save("a", b"3")
        assert (await store.load("a"), await store.load("b")) == (b"3", b"2")
        await store.save("a", None)
        await store.save("a", None)
        assert (await store.load("a"), await store.load("b")) == (None, b"2")

    async def test_one_at_a_time(self, store: TokenStore):
        inside: list[int] = []
        most = 0

        async def work(number: int) -> None:
            nonlocal most
            async with store.held("a"):
                inside.append(number)
                most = max(most, len(inside))
                await asyncio.sleep(0.001)
                inside.remove(number)

        await asyncio.gather(*map(work, range(4)))
        assert most == 1


class TestFile:
    async def test_nobody_else_can_read_it(self, tmp_path: Path):
        store = FileTokens(tmp_path / "dovetail" / "accounts", {})
        before = os.umask(0)
        try:
            await store.save("server", b"very secret")
        finally:
            os.umask(before)
        assert mode(tmp_path / "dovetail") == 0o700
        files = sorted((tmp_path / "dovetail").iterdir())
        assert [file.name for file in files] == ["accounts", "accounts.key", "accounts.lock"]
        assert {mode(file) for file in files} == {0o600}
        assert all(b"secret" not in file.read_bytes() and b"server" not in file.read_bytes() for file in files)

    async def test_a_key_of_the_environment_is_stored_nowhere(self, tmp_path: Path):
        store = FileTokens(tmp_path / "accounts", {KEY_VARIABLE: KEY})
        await store.save("a", b"1")
        assert not (tmp_path / "accounts.key").exists()
        assert await FileTokens(tmp_path / "accounts", {KEY_VARIABLE: KEY}).load("a") == b"1"
        with pytest.raises(LocalError, match="cannot be read with this key"):
            await FileTokens(tmp_path / "accounts", {KEY_VARIABLE: KEY + "x"}).load("a")

    async def test_a_file_that_was_tampered_with(self, tmp_path: Path):
        store = FileTokens(tmp_path / "accounts", {})
        await store.save("a", b"1")
        content = bytearray((tmp_path / "accounts").read_bytes())
        content[20] ^= 1
        (tmp_path / "accounts").write_bytes(content)
        with pytest.raises(LocalError, match="log in again"):
            await store.load("a")

    def test_a_key_that_is_too_short(self, tmp_path: Path):
        with pytest.raises(LocalError, match="at least 32 characters"):
            FileTokens(tmp_path / "accounts", {KEY_VARIABLE: "short"})

    async def test_what_several_save_at_once_is_all_there(self, tmp_path: Path):
        stores = [FileTokens(tmp_path / "accounts", {}) for _ in range(6)]
        await asyncio.gather(*[store.save(f"n{number}", b"x") for number, store in enumerate(stores)])
        assert await stores[0].names() == [f"n{number}" for number in range(6)]

    async def test_who_waits_for_one_login_does_not_wait_for_another(self, tmp_path: Path):
        one, other = (FileTokens(tmp_path / "accounts", {}) for _ in range(2))
        async with one.held("a"), asyncio.timeout(20), other.held("b"):
            await one.save("a", b"1")
            await other.save("b", b"2")
        assert await one.names() == ["a", "b"]

    async def test_processes_take_turns(self, tmp_path: Path):
        program = (
            "import asyncio, sys; from dovetail.client.auth.token_store import FileTokens\n"
            "async def main():\n"
            "    store = FileTokens(sys.argv[1], {})\n"
            "    for _ in range(10):\n"
            "        async with store.held('n'):\n"
            "            await store.save('n', str(int(await store.load('n') or 0) + 1).encode())\n"
            "asyncio.run(main())\n"
        )
        path = str(tmp_path / "accounts")
        running = [await asyncio.create_subprocess_exec(sys.executable, "-c", program, path) for _ in range(2)]
        assert [await process.wait() for process in running] == [0, 0]
        assert await FileTokens(path, {}).load("n") == b"20"

    async def test_whose_logins_there_are_is_told_without_the_key(self, tmp_path: Path):
        store = FileTokens(tmp_path / "accounts", {KEY_VARIABLE: KEY})
        assert not store.mentions("https://a.example")
        await store.save("https://a.example work", b"1")
        other = FileTokens(tmp_path / "accounts", {})
        assert (other.mentions("https://a.example"), other.mentions("https://b.example")) == (True, False)

    async def test_a_file_stays_with_the_key_that_it_began_with(self, tmp_path: Path):
        await FileTokens(tmp_path / "accounts", {}).save("a", b"1")
        store = FileTokens(tmp_path / "accounts", {KEY_VARIABLE: KEY})
        await store.save("b", b"2")
        assert await FileTokens(tmp_path / "accounts", {}).names() == ["a", "b"]

    async def test_with_the_last_login_the_file_goes(self, tmp_path: Path):
        old, store = (FileTokens(tmp_path / "accounts", {}) for _ in range(2))
        await old.save("a", b"1")
        await old.save("a", None)
        assert not (tmp_path / "accounts").exists()
        await FileTokens(tmp_path / "accounts", {KEY_VARIABLE: KEY}).save("a", b"2")
        with pytest.raises(StoreUnreadable, match=f"was encrypted with {KEY_VARIABLE}, which is not set now"):
            await store.load("a")

    async def test_another_key_that_others_began_with_is_found(self, tmp_path: Path):
        store = FileTokens(tmp_path / "accounts", {})
        await store.save("a", b"1")
        for path in tmp_path.iterdir():
            path.unlink()
        await FileTokens(tmp_path / "accounts", {}).save("a", b"2")
        assert await store.load("a") == b"2"

    async def test_a_key_that_was_lost(self, tmp_path: Path):
        await FileTokens(tmp_path / "accounts", {}).save("a", b"1")
        (tmp_path / "accounts.key").unlink()
        with pytest.raises(StoreUnreadable, match=r"accounts\.key, which is beside it no longer"):
            await FileTokens(tmp_path / "accounts", {}).save("b", b"2")

    async def test_a_folder_that_cannot_be_made(self, tmp_path: Path):
        (tmp_path / "file").touch()
        with pytest.raises(StoreUnreadable, match="cannot be used"):
            await FileTokens(tmp_path / "file" / "accounts", {}).save("a", b"1")

    def test_it_is_among_the_users_settings(self):
        place = {"XDG_CONFIG_HOME": "/settings"}
        assert default_tokens(environ=place).path == Path("/settings/dovetail/accounts")

    async def test_other_secrets_are_in_a_file_of_their_own(self, tmp_path: Path):
        place = {"XDG_CONFIG_HOME": str(tmp_path)}
        await default_tokens("secrets", place).save("api key", b"1")
        assert await default_tokens(environ=place).names() == []
        assert (tmp_path / "dovetail" / "secrets.key").exists()


class TestNames:
    def test_a_server_has_one_name_however_it_is_written(self):
        assert account_name("HTTPS://Example.com:443/mcp") == "https://example.com/mcp"
        assert account_name("https://example.com/mcp", "my work") == "https://example.com/mcp my work"

    @pytest.mark.parametrize("label", [" work", "two\nlines", "x" * 101, "\x1b[2J"])
    def test_a_name_that_is_none(self, label: str):
        with pytest.raises(LocalError, match="a short text on one line"):
            account_name("https://example.com/mcp", label)
