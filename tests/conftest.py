"""What every test can rely on: `async def` tests run on a fresh loop, cannot hang, and leave no error unseen."""

import asyncio
import inspect
from typing import Any

import hypothesis
import pytest

PATIENCE = 60.0

# The machine may be busy: an example that takes long is not a bug.
hypothesis.settings.register_profile("house", deadline=None)
hypothesis.settings.load_profile("house")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function to its end.

    What asyncio only logs (an exception that nobody retrieved, a callback that failed) fails the test.
    """
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    unseen: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, problem: unseen.append(problem))
        async with asyncio.timeout(PATIENCE):
            await test(**arguments)

    asyncio.run(bounded())
    assert not unseen, f"asyncio reported: {unseen}"
    return True
