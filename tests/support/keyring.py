"""A bus and a keyring of our own, as a desktop has them: without a screen, and with a password that nobody types."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

ABSENT = next(
    (
        f"{name} is not installed: see .ci/keyring"
        for name in ("gnome-keyring-daemon", "dbus-daemon")
        if not shutil.which(name)
    ),
    None,
)
"""Why there is no keyring to test with, if there is none."""

_BUS = "dbus-daemon --session --nofork --nopidfile --nosyslog --print-address"
_LOCK = "import secretstorage as s; s.get_default_collection(s.dbus_init()).lock()"


class Desktop:
    """What programs of one user find around them."""

    def __init__(self, folder: Path, bus: str) -> None:
        self.folder = folder
        self.keyring: subprocess.Popen[str] | None = None
        self.environ = {**surroundings(folder), "DBUS_SESSION_BUS_ADDRESS": bus}

    def lock(self) -> None:
        """Lock the keyring, as a screen saver does; unlocking needs somebody who types the password."""
        subprocess.run([sys.executable, "-c", _LOCK], env=self.environ, check=True, timeout=60)

    def freeze(self) -> None:
        """Stop the keyring, so that it is there and says nothing."""
        assert self.keyring is not None
        self.keyring.send_signal(signal.SIGSTOP)


def surroundings(folder: Path) -> dict[str, str]:
    """The folders of a user who has no screen, no terminal and no bus."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DBUS_", "DOVETAIL_", "DISPLAY", "WAYLAND_"))
    }
    names = {"HOME": "home", "XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_RUNTIME_DIR": "runtime"}
    for name in names.values():
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return {**kept, **{variable: str(folder / name) for variable, name in names.items()}}


@contextlib.contextmanager
def desktop(folder: Path) -> Iterator[Desktop]:
    """A bus, and a keyring on it that is unlocked."""
    with contextlib.ExitStack() as ending:
        # The folder of a test may be deeper than the address of a socket can be long.
        place = ending.enter_context(tempfile.TemporaryDirectory(prefix="bus-"))
        bus = subprocess.Popen(
            [*_BUS.split(), f"--address=unix:dir={place}"],
            env=surroundings(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        ending.enter_context(_ended(bus))
        assert bus.stdout is not None
        found = Desktop(folder, bus.stdout.readline().strip())
        found.keyring = _keyring(found.environ)
        with _ended(found.keyring):
            yield found


def _keyring(environ: Mapping[str, str]) -> subprocess.Popen[str]:
    """The daemon; it says where its socket is once it has read the password."""
    keyring = subprocess.Popen(
        ["gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"],
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert keyring.stdin is not None and keyring.stdout is not None
    keyring.stdin.write("password")
    keyring.stdin.close()
    keyring.stdout.readline()
    return keyring


@contextlib.contextmanager
def _ended(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
