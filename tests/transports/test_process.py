"""A child process as a channel: lines in and out, why it ended, and nothing left of it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from dovetail.protocol.errors import ConnectionLost
from dovetail.transports.process import ProcessChannel
from dovetail.wire.lines import TooLong
from tests.support.raw import PATIENCE, alive
from tests.support.tidy import nothing_left_on_the_loop
from tests.support.waiting import settled
from tests.transports.collector import Collector


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


def opened(command: list[str], **options: str) -> tuple[ProcessChannel, Collector]:
    channel, seen = ProcessChannel(command, options.get("env"), options.get("cwd")), Collector()  # type: ignore[arg-type]
    channel.open(seen)
    return channel, seen


async def test_lines_go_to_the_child_and_back() -> None:
    async with nothing_left_on_the_loop():
        channel, seen = opened(["cat"])
        pid = channel.pid
        assert pid is not None and alive(pid)
        for n in range(1000):
            channel.send(b"%d" % n)
        await seen.count(1000)
        assert seen.lines == [b"%d" % n for n in range(1000)]
        await channel.close()
        assert channel.pid is None
        assert not alive(pid)


def test_a_process_channel_works_on_uvloop() -> None:
    import uvloop

    async def talk() -> None:
        async with asyncio.timeout(PATIENCE):
            channel, seen = opened(["cat"])
            channel.send(b"x" * 3_000_000)
            channel.send(b"end")
            await seen.count(2)
            await channel.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk())


async def test_a_channel_that_was_never_opened_can_be_closed() -> None:
    channel = ProcessChannel(["cat"])
    channel.send(b"to nobody")
    channel.flush()
    channel.pause()
    channel.resume()
    await channel.drained()
    assert not channel.congested
    await channel.close()


async def test_a_channel_can_be_closed_twice() -> None:
    channel, _ = opened(["cat"])
    await channel.close()
    await channel.close()


async def test_what_was_sent_before_closing_reaches_the_child(tmp_path: Path) -> None:
    target = tmp_path / "copy"
    channel, _ = opened(["/bin/sh", "-c", f"cat > {target}"])
    for _ in range(100):
        channel.send(b"x" * 9_999)
    await channel.close()
    assert os.path.getsize(target) == 1_000_000


async def test_a_child_that_does_not_read_congests_the_channel() -> None:
    async with nothing_left_on_the_loop():
        channel, _ = opened(python("import time; time.sleep(600)"))
        assert not channel.congested
        channel.send(b"x" * 5_000_000)
        assert channel.congested
        waiting = asyncio.create_task(channel.drained())
        await settled()
        assert not waiting.done()
        os.kill(channel.pid or 0, 9)
        await asyncio.wait_for(waiting, PATIENCE)
        await channel.close()


async def test_a_paused_channel_leaves_the_output_in_the_pipe() -> None:
    channel, seen = opened(["cat"])
    channel.pause()
    channel.send(b"later")
    await asyncio.sleep(0.1)
    assert not seen.lines
    channel.resume()
    await seen.count(1)
    await channel.close()


async def test_an_overlong_line_is_reported_by_its_beginning_and_end() -> None:
    channel = ProcessChannel(["cat"], max_line=10)
    seen = Collector()
    channel.open(seen)
    channel.send(b"x" * 100_000)
    channel.send(b"short")
    await seen.count(2)
    assert isinstance(seen.lines[0], TooLong)
    assert seen.lines[1] == b"short"
    await channel.close()


class TestReasonOfDisconnection:
    async def reason(self, command: list[str]) -> str:
        async with nothing_left_on_the_loop():
            channel, seen = opened(command)
            await seen.end()
            await channel.close()
        assert len(seen.ends) == 1
        assert seen.ends[0] is not None
        return seen.ends[0]

    async def test_the_reason_has_the_exit_code(self) -> None:
        assert "exited with code 3" in await self.reason(python("raise SystemExit(3)"))

    async def test_the_reason_has_the_signal(self) -> None:
        assert await self.reason(["/bin/sh", "-c", "kill -9 $$"]) == "'/bin/sh' was ended by the signal SIGKILL"
        # Shells and containers report the signal of the program that they ran in their exit code.
        assert await self.reason(["/bin/sh", "-c", "exit 137"]) == "'/bin/sh' exited with code 137 (SIGKILL)"

    async def test_the_reason_has_the_last_lines_of_stderr(self, capfd: pytest.CaptureFixture[str]) -> None:
        reason = await self.reason(python("import sys\nfor n in range(100): print(n, file=sys.stderr)"))
        assert reason.splitlines()[-1] == "99"
        assert len(reason.splitlines()) < 20
        assert capfd.readouterr().err.split() == [str(n) for n in range(100)], "but all are forwarded"

    async def test_the_reason_says_that_the_output_was_closed(self) -> None:
        code = "import os, sys; os.close(1); sys.stdin.read()"
        assert "closed its output" in await self.reason(python(code))

    async def test_a_closed_input_ends_the_connection_although_the_output_stays_open(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("dovetail.transports.process._EXIT_SECONDS", 0.2)
        channel, seen = opened(python("import os, time; os.close(0); print('closed', flush=True); time.sleep(600)"))
        await seen.count(1)
        channel.send(b"to nobody")
        await seen.end()
        assert seen.ends[0] is not None
        assert "writing failed" in seen.ends[0]
        await channel.close()

    async def test_responses_before_the_end_are_delivered_first(self) -> None:
        code = "import os; os.write(1, b'answer\\n' * 1000); os._exit(0)"
        channel, seen = opened(python(code))
        channel.send(b"maybe to nobody")
        await seen.end()
        assert seen.lines == [b"answer"] * 1000
        await channel.close()


async def test_the_child_gets_our_environment_and_its_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "yes")
    code = "import os; print(os.environ['OURS'], 'PATH' in os.environ, os.getcwd(), flush=True)"
    channel = ProcessChannel(python(code), cwd=tmp_path)
    seen = Collector()
    channel.open(seen)
    await seen.count(1)
    assert seen.lines == [f"yes True {tmp_path}".encode()]
    await channel.close()


async def test_the_child_gets_no_environment_but_the_one_that_is_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUR_SECRET", "hush")
    code = "import os; print('OUR_SECRET' in os.environ, os.environ['ADDED'], flush=True)"
    channel = ProcessChannel(python(code), {"ADDED": "yes"})
    seen = Collector()
    channel.open(seen)
    await seen.count(1)
    assert seen.lines == [b"False yes"]
    await channel.close()


async def test_stderr_of_the_child_can_be_received_line_by_line(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    channel = ProcessChannel(python("import sys; sys.stderr.write('one\\ntwo\\n')"), on_stderr=said.append)
    seen = Collector()
    channel.open(seen)
    await seen.end()
    await channel.close()
    assert said == ["one", "two"]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("command", [["/no/such/program"], ["/etc/passwd"], [""], ["a\0b"]])
async def test_a_program_that_cannot_be_started_raises_connection_lost(command: list[str]) -> None:
    async with nothing_left_on_the_loop():
        channel = ProcessChannel(command)
        with pytest.raises(ConnectionLost, match="Could not start"):
            channel.open(Collector())
        await channel.close()


async def test_a_child_that_is_still_writing_when_the_channel_closes_can_exit_by_itself(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = "import os, sys; os.write(1, b'x\\n' * 3_000_000); sys.stdin.read(); sys.stderr.write('orderly')"
    channel, seen = opened(python(code))
    await seen.count(1)
    channel.pause()
    await channel.close()
    assert capfd.readouterr().err == "orderly\n"


async def test_unread_lines_of_stderr_are_forwarded_when_the_channel_closes(
    capfd: pytest.CaptureFixture[str],
) -> None:
    channel, _ = opened(python("import sys; sys.stderr.write('bye\\n' * 3000)"))
    # Without a turn of the loop, so that the child is dead and its pipe still full.
    os.waitid(os.P_PID, channel.pid or 0, os.WEXITED | os.WNOWAIT)
    await channel.close()
    assert capfd.readouterr().err == "bye\n" * 3000


async def test_a_cancelled_close_has_terminated_the_child() -> None:
    async with nothing_left_on_the_loop():
        channel, seen = opened(python("import time; print('up', flush=True); time.sleep(600)"))
        await seen.count(1)
        pid = channel.pid
        closing = asyncio.create_task(channel.close())
        await settled()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert pid is not None and not alive(pid)
