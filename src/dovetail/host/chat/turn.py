"""One turn of a chat: the model answers, its tools are called side by side, and so on until it is done.

The conversation is valid at every moment: an answer with tool uses joins it together with a result for each of them,
in one go, whatever happens to the calls (sampling, "Tool Use and Result Balance").
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dovetail.host.catalogue import HostResource, HostTool
from dovetail.host.error_results import RefusedResult
from dovetail.host.models.contract import Model, TextDelta
from dovetail.host.models.stream_answer import stream_answer
from dovetail.host.models.usage import Usage, usage_of
from dovetail.host.tasks.host_task import BackgroundResult, HostTask
from dovetail.protocol.errors import DovetailError, InvalidAnswer, LocalError
from dovetail.protocol.sampling import blocks_of
from dovetail.runtime.pending_requests import OnProgress
from dovetail.text.sanitize import clean, clean_text
from dovetail.types.client_features import CreateMessageParams, CreateMessageResult, SamplingMessage, ToolChoice
from dovetail.types.content import ResourceLink, SamplingContent, Text, ToolResultContent, ToolUse
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult

from .events import ChatEvent, ChatLimits, EndReason, LinkedResource, ToolFinished, ToolProgress, ToolStarted, TurnEnded
from .provenance import clean_link, contents_of, for_model, for_person
from .tool_search import LocalResult, ServerToolCall, ToolSearch

STOPPED = "[Stopped before there was a result; it may have had an effect all the same.]"
BROKEN_OFF = "[The answer broke off here.]"
AT_AN_END = "[Not called: this turn has used up its tool calls. Answer with what there is.]"
GRACE = 2.0
"""Seconds for calls to say that they are cancelled."""

log = logging.getLogger("dovetail.host")


class ChatHost(Protocol):
    """The part of a host that a chat uses."""

    @property
    def models(self) -> Sequence[Model]: ...

    async def tools(self) -> Sequence[HostTool]: ...

    async def resources(self) -> Sequence[HostResource]: ...

    def instructions(self) -> Mapping[str, str]: ...

    async def read(self, server: str, uri: str) -> ReadResourceResult: ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        progress: OnProgress | None = None,
        check: bool = True,
        background_after: float | None = None,
    ) -> CallToolResult: ...


class Turn:
    """One turn: from a message of the user to the end of the model's answer."""

    def __init__(
        self,
        host: ChatHost,
        model: Model,
        messages: list[SamplingMessage],
        system: Callable[[], str],
        limits: ChatLimits,
        emit: Callable[[ChatEvent], None],
        *,
        owners: dict[str, str],
        background: list[HostTask],
        searching: bool = False,
    ) -> None:
        """`owners` is told whose tools are used, by the ids of the uses; `background` has tasks that go on."""
        self._host = host
        self._model = model
        self._messages = messages
        self._system = system
        self._limits = limits
        self._emit = emit
        self._owners = owners
        self._background = background
        self._calls_left = limits.calls
        self._results_left = limits.results
        self._output_left = limits.output
        self._side_by_side = asyncio.Semaphore(limits.side_by_side)
        self.searching = searching
        """The tools were too many to be listed; it stays so, to keep what is offered steady."""
        self.usage: Usage | None = None
        self.last_usage: Usage | None = None
        self.links: list[LinkedResource] = []

    async def run(self) -> None:
        """Go on until the model is done, or a bound is reached."""
        for left in range(self._limits.rounds - 1, -1, -1):
            toolbox = await self._toolbox()
            free = left > 0 and self._calls_left > 0
            answer = await self._ask(toolbox, free)
            if answer is None:
                return self._end("output")
            uses = [block for block in blocks_of(answer.content) if isinstance(block, ToolUse)]
            if not uses:
                self._messages.append(SamplingMessage(role="assistant", content=answer.content))
                return self._end("length" if answer.stop_reason == "maxTokens" else "done", answer.stop_reason)
            if not free:
                self._join(answer, [_note(use, AT_AN_END) for use in uses])
                return self._end("calls" if left > 0 else "rounds", answer.stop_reason)
            await self._round(answer, uses, toolbox)
        raise LocalError("A turn needs at least one round")

    def _end(self, reason: EndReason, stop_reason: str | None = None) -> None:
        self._emit(TurnEnded(reason=reason, usage=self.usage, last=self.last_usage, stop_reason=stop_reason))

    async def _toolbox(self) -> ToolSearch:
        tools = await self._host.tools()
        self.searching = self.searching or len(tools) > self._limits.tools
        return ToolSearch(tools, searching=self.searching)

    async def _ask(self, toolbox: ToolSearch, free: bool) -> CreateMessageResult | None:
        """The model's answer; None when it says more than anybody wants to read, and the turn is over."""
        said: list[str] = []
        params = CreateMessageParams(
            messages=list(self._messages),
            max_tokens=self._limits.tokens,
            system_prompt=self._system(),
            tools=toolbox.offered or None,
            tool_choice=None if free or not toolbox.offered else ToolChoice(mode="none"),
        )
        try:
            async with stream_answer(self._model, params) as events:
                async for event in events:
                    if isinstance(event, CreateMessageResult):
                        return self._cleaned_answer(event, streamed=bool(said))
                    if piece := clean_text(event.text)[: self._output_left]:
                        said.append(piece)
                        self._output_left -= len(piece)
                        self._emit(TextDelta(piece))
                    if self._output_left <= 0:
                        break
            if self._output_left > 0:
                raise InvalidAnswer(f"The model {self._model.name} stopped without an answer")
        except BaseException:
            self._break_off(said)
            raise
        self._break_off(said)
        return None

    def _cleaned_answer(self, answer: CreateMessageResult, *, streamed: bool) -> CreateMessageResult:
        if (used := usage_of(answer)) is not None:
            self.usage = used + (self.usage or Usage())
            self.last_usage = used
        blocks: list[SamplingContent] = []
        for block in blocks_of(answer.content):
            if isinstance(block, Text):
                words = clean_text(block.text[: self._limits.output])
                blocks.append(Text(text=words))
                if words and not streamed:  # not every model streams its answer
                    self._emit(TextDelta(words))
            elif not isinstance(block, ToolResultContent):
                blocks.append(block)
        return CreateMessageResult(role="assistant", content=blocks, model=answer.model, stop_reason=answer.stop_reason)

    def _break_off(self, said: Sequence[str]) -> None:
        words = "\n\n".join(part for part in ("".join(said), BROKEN_OFF) if part)
        self._messages.append(SamplingMessage(role="assistant", content=Text(text=words)))

    def _join(self, answer: CreateMessageResult, results: list[SamplingContent]) -> None:
        self._messages += [
            SamplingMessage(role="assistant", content=answer.content),
            SamplingMessage(role="user", content=results),
        ]

    async def _round(self, answer: CreateMessageResult, uses: Sequence[ToolUse], toolbox: ToolSearch) -> None:
        """Call tools side by side; one that is stopped has a result too."""
        results: list[SamplingContent] = [_note(use, STOPPED) for use in uses]
        tasks = [
            asyncio.create_task(self._use(use, toolbox, place, results), name=f"dovetail tool {use.name[:80]}")
            for place, use in enumerate(uses)
        ]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            self._join(answer, list(results))
            if pending := [task for task in tasks if not task.done()]:
                await asyncio.wait(pending, timeout=GRACE)
        for task in tasks:
            if not task.cancelled() and (problem := task.exception()) is not None:
                raise problem

    async def _use(self, use: ToolUse, toolbox: ToolSearch, place: int, results: list[SamplingContent]) -> None:
        meaning = toolbox.meaning(use)
        name, server, tool = _called(use, meaning)
        self._owners[use.id] = server
        arguments = meaning.arguments if isinstance(meaning, ServerToolCall) else use.input
        self._emit(ToolStarted(id=use.id, name=name, server=server, tool=tool, arguments=clean(arguments)))
        result = CallToolResult(content=[Text(text=STOPPED)], is_error=True)
        try:
            if isinstance(meaning, LocalResult):
                result = CallToolResult(content=[Text(text=meaning.text)], is_error=meaning.is_error)
                results[place] = _result(use, result)
            elif self._calls_left <= 0:
                result = CallToolResult(content=[Text(text=AT_AN_END)], is_error=True)
                results[place] = _result(use, result)
            else:
                self._calls_left -= 1
                result = await self._call(use, meaning)
                results[place] = self._attributed(use, server, tool, result)
        finally:
            links = [
                LinkedResource(server, clean_link(block)) for block in result.content if isinstance(block, ResourceLink)
            ]
            self.links += links
            self._emit(
                ToolFinished(
                    id=use.id,
                    name=name,
                    server=server,
                    tool=tool,
                    result=for_person(result, self._limits.result),
                    refused=isinstance(result, RefusedResult),
                    task=result.task.number if isinstance(result, BackgroundResult) else None,
                    links=tuple(links),
                )
            )

    async def _call(self, use: ToolUse, meaning: ServerToolCall) -> CallToolResult:
        name, server, tool = _called(use, meaning)

        def progress(done: float, total: float | None, message: str | None) -> None:
            words = None if message is None else clean_text(message[:500])
            self._emit(
                ToolProgress(id=use.id, name=name, server=server, tool=tool, progress=done, total=total, message=words)
            )

        async with self._side_by_side:
            try:
                result = await self._host.call(
                    meaning.tool.name,
                    meaning.arguments,
                    progress=progress,
                    check=False,
                    background_after=self._limits.task_seconds,
                )
                if isinstance(result, BackgroundResult):
                    self._background.append(result.task)
                return result
            except DovetailError as problem:
                return CallToolResult(content=[Text(text=f"The call failed: {problem}")], is_error=True)
            except Exception:
                log.exception("Calling %s failed in the host", meaning.tool.name)
                return CallToolResult(content=[Text(text="The call failed within the host.")], is_error=True)

    def _attributed(self, use: ToolUse, server: str, tool: str, result: CallToolResult) -> ToolResultContent:
        if isinstance(result, RefusedResult | BackgroundResult):
            return _result(use, result)
        room = max(min(self._limits.result, self._results_left), 0)
        content = for_model(server, tool, contents_of(result), room)
        self._results_left -= sum(len(block.text) for block in content if isinstance(block, Text))
        return ToolResultContent(tool_use_id=use.id, content=content, is_error=result.is_error)


def _called(use: ToolUse, meaning: ServerToolCall | LocalResult) -> tuple[str, str, str]:
    """Names of a tool: (name in the host, key of the server, name on the server); the key is "" for built-in tools."""
    tool = meaning.tool if isinstance(meaning, ServerToolCall) else None
    names = (use.name, "", use.name) if tool is None else (tool.name, tool.server, tool.tool.name)
    return clean_text(names[0][:200]), clean_text(names[1]), clean_text(names[2][:200])


def _result(use: ToolUse, result: CallToolResult) -> ToolResultContent:
    return ToolResultContent(tool_use_id=use.id, content=result.content, is_error=result.is_error)


def _note(use: ToolUse, words: str) -> ToolResultContent:
    return ToolResultContent(tool_use_id=use.id, content=[Text(text=words)], is_error=True)
