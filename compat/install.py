"""Installs an environment of the tables under .peers/compat, once.

Python packages are installed by uv, which links files of its cache instead of copying them, npm packages by npm. A
folder is complete when it has its stamp, and the stamp holds what was asked for: a changed table installs anew.
"""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from .entries import Environment

ROOT = Path(__file__).resolve().parent.parent
HOME = (ROOT / ".peers").resolve() / "compat"
CACHE = HOME / ".cache"
INSTALL_SECONDS = 600
NO_BROWSERS = {"PUPPETEER_SKIP_DOWNLOAD": "1", "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1"}


class InstallError(Exception):
    """An environment that cannot be installed; the text has the command and the last of what it wrote."""


def folder(environment: Environment) -> Path:
    """The folder of an environment."""
    return HOME / environment.name


def is_installed(environment: Environment) -> bool:
    """Whether an environment is complete, and holds what the table says."""
    stamp = folder(environment) / ".ready"
    return stamp.exists() and stamp.read_text() == _wanted(environment)


async def install(environment: Environment) -> Path:
    """Install an environment unless it is there, and return its folder."""
    home = folder(environment)
    if is_installed(environment):
        return home
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    if environment.registry == "pypi":
        await _install_python(environment, home)
    else:
        await _install_node(environment, home)
    (home / ".ready").write_text(_wanted(environment))
    return home


async def _install_python(environment: Environment, home: Path) -> None:
    uv = await _uv()
    # The machine's certificates, as pip and npm use them: there may be a proxy with one of its own.
    where = {**os.environ, "UV_CACHE_DIR": str(CACHE / "uv"), "UV_LINK_MODE": "hardlink", "UV_SYSTEM_CERTS": "1"}
    if "PIP_FIND_LINKS" in os.environ:
        where.setdefault("UV_FIND_LINKS", os.environ["PIP_FIND_LINKS"])
    await _run(uv, "venv", "--quiet", "--python", interpreter(environment.python), str(home), env=where)
    python = str(home / "bin" / "python")
    await _run(uv, "pip", "install", "--quiet", "--python", python, *environment.packages, env=where)


async def _install_node(environment: Environment, home: Path) -> None:
    where = {**os.environ, **NO_BROWSERS, "NODE": str(environment.node), "npm_config_cache": str(CACHE / "npm")}
    venv = Path(sys.executable).parent.parent
    await _run(str(ROOT / ".ci" / "node"), str(venv), str(home), *environment.packages, env=where)


_uv_install = asyncio.Lock()


async def _uv() -> str:
    """The program uv, installed by pip into an environment of its own."""
    tools = HOME / ".tools"
    uv = tools / "bin" / "uv"
    # Environments are installed at the same time, and two of them would write to one folder.
    async with _uv_install:
        if not uv.exists():
            await _run(str(ROOT / ".ci" / "venv"), sys.executable, str(tools), "uv")
    return str(uv)


def interpreter(version: str) -> str:
    """A Python of a version such as 3.12, of the PATH or of pyenv; this one if none is named."""
    if not version:
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = [*pyenv.glob(f"versions/{version}.*/bin/python{version}")]
    on_path = shutil.which(f"python{version}")
    # A shim of pyenv is on the PATH also where no version is selected, and then it fails.
    if on_path and not Path(on_path).is_relative_to(pyenv / "shims"):
        return on_path
    if installed:
        return str(installed[-1])
    raise InstallError(f"it needs Python {version}, which is not installed here")


def _wanted(environment: Environment) -> str:
    return "\n".join([environment.registry, environment.python, str(environment.node), *environment.packages])


async def _run(*command: str, env: dict[str, str] | None = None) -> None:
    # Into a file: the end of a pipe is not seen before every child of the installer has closed it.
    with tempfile.TemporaryFile() as written:
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=ROOT,
            env=env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=written,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(INSTALL_SECONDS):
                await process.wait()
        except TimeoutError:
            raise InstallError(f"the installation took more than {INSTALL_SECONDS} s: {' '.join(command)}") from None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        if process.returncode:
            written.seek(0)
            last = written.read().decode(errors="replace").strip()[-2000:]
            raise InstallError(f"{' '.join(command)} exited with {process.returncode}: {last}")
