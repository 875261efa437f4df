"""`Chat`: a conversation between a user and a model that may use the servers of a host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from dovetail.host.models.contract import Model
from dovetail.host.models.select_model import find_model, select_model
from dovetail.host.tasks.host_task import HostTask
from dovetail.protocol.errors import LocalError
from dovetail.protocol.sampling import check_conversation
from dovetail.types.client_features import ModelPreferences, SamplingMessage
from dovetail.types.content import SamplingContent, Text
from dovetail.types.prompts import PromptMessage

from .attachments import Attachments, Picked, by_priority, resource_key
from .event_queue import EventQueue
from .events import Attached, ChatEvent, ChatLimits, LinkedResource, TurnEnded
from .provenance import ended_task, prompt_messages, system_prompt
from .sampling_context import context_for
from .turn import ChatHost, Turn

Words: TypeAlias = str | Sequence[PromptMessage | SamplingMessage]
"""A text of the user, or whole messages."""


class Chat:
    """A conversation: `async for event in chat.say("…")`, then the same again.

    `messages` is what the model sees, and every tool use in it has its result: also after a stop or an error, so a chat
    can always go on, or be kept and taken up later (`Chat(host, messages=…)`). An error of the model is raised
    from `say`. Errors of servers, and refusals, are results that the model is told of.
    """

    def __init__(
        self,
        host: ChatHost,
        *,
        model: str | Model | None = None,
        preferences: ModelPreferences | None = None,
        system: str | None = None,
        limits: ChatLimits | None = None,
        attach_above: float | None = None,
        messages: Iterable[SamplingMessage] = (),
        owners: Mapping[str, str] | None = None,
    ) -> None:
        """`attach_above` attaches resources of at least that priority, from 0 to 1, to the first message.

        `messages` and `owners` of an earlier chat continue it.
        """
        self.limits = limits or ChatLimits()
        if self.limits.rounds < 1:
            raise LocalError("A chat needs at least one round")
        self.messages = list(messages)
        check_conversation(self.messages)
        self.links: list[LinkedResource] = []
        """Resources that servers pointed at, the newest last; attach one to follow it."""
        self._host = host
        self._model = _model_for(host, model, preferences)
        self._system = system
        self._attach_above = attach_above
        self._attached: set[tuple[str, str]] = set()
        self._searching = False
        self._owners: dict[str, str] = dict(owners or {})
        self._background: list[HostTask] = []
        """Tasks of this conversation that go on, or whose end the model was not told of yet."""
        self._running_work: asyncio.Task[None] | None = None

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self._model.name

    @property
    def owners(self) -> Mapping[str, str]:
        """The servers whose tools were used, by the ids of the uses; to be kept together with `messages`."""
        return MappingProxyType(self._owners)

    @property
    def context_window(self) -> int | None:
        """The number of tokens that the model can read, if it is known."""
        window = getattr(self._model, "context_window", None)
        return window if isinstance(window, int) else None

    def use(self, model: str | Model) -> None:
        """Have another model answer from the next turn on."""
        self._model = _model_for(self._host, model, None)

    async def say(
        self, words: Words, *, attach: Iterable[Picked] = (), server: str | None = None
    ) -> AsyncGenerator[ChatEvent]:
        """Say something, and follow what comes of it up to `TurnEnded`; a turn still under way is stopped first.

        Instead of a text it may be messages, as of a prompt; `server` names whose prompt it is, and marks it as such.
        Closing the iterator stops the turn.
        """
        await self.stop()
        outbox = EventQueue()
        turn = Turn(
            self._host,
            self._model,
            self.messages,
            self._prompt,
            self.limits,
            outbox.put,
            owners=self._owners,
            background=self._background,
            searching=self._searching,
        )
        task = self._running_work = asyncio.create_task(
            self._run(turn, words, list(attach), server, outbox), name="dovetail chat"
        )
        task.add_done_callback(lambda _: outbox.close())
        try:
            async for event in outbox:
                yield event
            if task.cancelled():
                yield TurnEnded(reason="stopped", usage=turn.usage, last=turn.last_usage)
            elif (problem := task.exception()) is not None:
                raise problem
        finally:
            await _stopped(task)

    async def stop(self) -> None:
        """End the turn that is under way, if any: the model's answer, and calls, whose servers are told."""
        if self._running_work is not None:
            await _stopped(self._running_work)
            self._running_work = None

    def context(self, server: str, scope: str) -> list[SamplingMessage]:
        """Messages that a sampling request may include if the user approves: `host.on_context`."""
        return context_for(server, scope, self.messages, self._owners)

    async def _run(
        self, turn: Turn, words: Words, attach: Sequence[Picked], server: str | None, outbox: EventQueue
    ) -> None:
        said = _said(words, server, self.limits.result)
        attached = [*self._ended_tasks(), *await self._attach(attach, outbox)]
        if attached:
            said.insert(0, SamplingMessage(role="user", content=attached))
        self.messages += _joined(said)
        try:
            await turn.run()
        finally:
            self._searching = turn.searching
            self.links += turn.links

    async def _attach(self, picked: Sequence[Picked], outbox: EventQueue) -> list[SamplingContent]:
        def emit(event: Attached) -> None:
            if event.problem is None:
                self._attached.add((event.server, event.uri))
            outbox.put(event)

        attaching = Attachments(self._host, self.limits.attached, emit)
        for one in picked:
            await attaching.pick(one)
        if self._attach_above is not None and not self.messages:
            for item in by_priority(await self._host.resources(), self._attach_above):
                if resource_key(item) not in self._attached:
                    await attaching.offer(item)
        return attaching.blocks

    def _ended_tasks(self) -> list[SamplingContent]:
        """The results of tasks that ended since the model was last told of them."""
        ended = [task for task in self._background if task.is_ended]
        self._background[:] = [task for task in self._background if not task.is_ended]
        return [block for task in ended for block in ended_task(task, self.limits.result)]

    def _prompt(self) -> str:
        return system_prompt(self._system, self._host.instructions(), self.limits.instructions)


def _said(words: Words, server: str | None, limit: int) -> list[SamplingMessage]:
    if isinstance(words, str):
        return [SamplingMessage(role="user", content=Text(text=words))]
    said: list[SamplingMessage] = []
    for message in words:
        said += prompt_messages(server, [message], limit) if isinstance(message, PromptMessage) else [message]
    check_conversation(said)
    return said


def _model_for(host: ChatHost, model: str | Model | None, preferences: ModelPreferences | None) -> Model:
    if isinstance(model, str):
        return find_model(host.models, model)
    return select_model(host.models, preferences) if model is None else model


def _joined(said: Sequence[SamplingMessage]) -> list[SamplingMessage]:
    """Put attachments at the beginning of the user's own message: some models require the roles to alternate."""
    if len(said) < 2 or said[0].role != said[1].role or not isinstance(said[0].content, list):
        return list(said)
    rest = said[1].content
    joined = [*said[0].content, *(rest if isinstance(rest, list) else [rest])]
    return [SamplingMessage(role=said[1].role, content=joined), *said[2:]]


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    if not task.done():
        await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()  # looked at, for asyncio reports those that nobody looks at
