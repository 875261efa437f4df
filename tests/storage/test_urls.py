"""URLs of stores: which store each one opens, and errors that say what to write instead."""

import asyncio
import sys
from pathlib import Path

import pytest

from dovetail import Server
from dovetail.server.http.options import Settings
from dovetail.storage import MemoryStore, RedisStore, SqliteStore, StoreUnusable, open_store
from dovetail.storage.urls import StoreUrl
from dovetail.types.errors import LocalError


@pytest.mark.parametrize("url", ["memory:", "memory://", "Memory:"])
def test_a_store_in_memory_has_a_url(url: str) -> None:
    assert isinstance(open_store(url), MemoryStore)
    assert not StoreUrl(url).shared


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://{folder}/a.db",
        "sqlite:{folder}/a.db",
        "SQLITE:a.db",
        "sqlite:./a.db",
        "a.db",
        "./a.db",
        "{folder}/a.db",
        "sqlite:%61.db",
    ],
)
def test_a_path_is_a_sqlite_file(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = StoreUrl(url.format(folder=tmp_path))
    assert given.shared and given.absolute() == str(tmp_path / "a.db")
    store = given.open()
    assert isinstance(store, SqliteStore)
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".db"] == ["a.db"]
    asyncio.run(store.close())


def test_a_path_object_is_never_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(open_store(Path("memory:")).close())
    assert (tmp_path / "memory:").exists()


def test_a_path_with_a_drive_of_windows_is_a_path() -> None:
    assert StoreUrl("C:/data/a.db").absolute().endswith("C:/data/a.db")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "The URL of the store is empty; stores are sqlite:///absolute/path, sqlite:relative/path, a plain path, "),
        ("reddis://:sesame@h", "There is no store with the scheme reddis: did you mean redis:?"),
        ("redis+sentinal://h", "There is no store with the scheme redis+sentinal: did you mean redis+sentinel:?"),
        ("sqlite3:x.db", "There is no store with the scheme sqlite3: did you mean sqlite:?"),
        ("localhost:6379", "There is no store with the scheme localhost: stores are sqlite:///absolute/path, "),
        ("postgresql://u:sesame@h/d", "There is no store with the scheme postgresql: stores are sqlite:///absolute"),
        ("redis://user:sesame@localhost:x", "The URL of the Redis store has a port that is not a number"),
        ("redis:localhost", "The URL of the Redis store has no host"),
        ("memory:name", "A store in memory has no name; write memory:"),
        ("sqlite:", "The URL of the store names no file; write sqlite:///absolute/path or sqlite:relative/path"),
        ("sqlite:///", "The URL of the store names no file"),
        ("sqlite::memory:", "A store in memory is memory:, not sqlite::memory:"),
        ("sqlite://a.db", "sqlite:// is followed by an absolute path: sqlite:///absolute/path, or sqlite:relative"),
    ],
)
def test_a_wrong_url_is_a_clear_error_without_its_password(url: str, message: str) -> None:
    with pytest.raises(LocalError) as raised:
        open_store(url)
    assert str(raised.value).startswith(message)
    assert "sesame" not in str(raised.value)


def test_a_file_that_cannot_be_opened_is_an_error_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="cannot be created: No such file or directory"):
        open_store(f"sqlite://{tmp_path}/nowhere/a.db")


def test_a_missing_extra_is_an_error_that_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)  # as if it were not installed
    with pytest.raises(
        LocalError, match=r"A store in Redis needs the extra redis: pip install 'dovetail-mcp\[redis\]'"
    ):
        open_store("redis://localhost")


SECRET_URLS = [
    ("redis://user:sesame@localhost:1/0", "redis://localhost:1/0"),
    ("rediss+sentinel://:ses%40me@a,b/main?sentinel_password=sesame", "rediss+sentinel://a:26379,b:26379/main/0"),
    ("redis+cluster://user:sesame@localhost", "redis+cluster://localhost:6379"),
]


def test_each_url_of_redis_opens_a_store_in_redis() -> None:
    for url, shown in SECRET_URLS:
        store = open_store(url)
        assert isinstance(store, RedisStore) and shown in repr(store)
        asyncio.run(store.close())


@pytest.mark.parametrize(("url", "shown"), SECRET_URLS)
def test_the_text_of_a_url_has_no_credentials(url: str, shown: str) -> None:
    assert str(StoreUrl(url)) == shown
    assert repr(StoreUrl(url)) == f"StoreUrl({shown!r})"
    settings = repr(Settings.of({"store": url}))
    assert shown in settings and "sesame" not in settings


def test_a_server_without_a_store_uses_that_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOVETAIL_STORE", "sqlite:named.db")
    assert str(Settings.of({}).store) == "sqlite:named.db"
    assert str(Settings.of({"store": "memory:"}).store) == "memory:"
    assert Settings.of({"store": None}).store is None
    assert str(Settings.of({"store": tmp_path / "a.db"}).store) == str(tmp_path / "a.db")
    monkeypatch.setenv("DOVETAIL_STORE", "")
    assert Settings.of({}).store is None
    monkeypatch.setenv("DOVETAIL_STORE", "sqllite:a.db")
    with pytest.raises(LocalError, match="did you mean sqlite:"):
        Server("any").asgi()
