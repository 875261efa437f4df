"""`Host`: many servers under the control of one user."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from dovetail.config.entries import ServerEntry
from dovetail.host.consent.consent import Consent
from dovetail.host.consent.definition_review import DefinitionReview, Withheld, not_withheld
from dovetail.host.consent.guarded_access import GuardedAccess, StartedTask
from dovetail.host.consent.server_requests import OnContext, RequestContext, ServerRequestHandlers
from dovetail.host.consent.user_prompts import OnHostElicit, UserPrompts
from dovetail.host.models.contract import Model
from dovetail.host.servers.controller import ControllerContext, ServerController
from dovetail.host.servers.launcher import Launcher, OnAuth
from dovetail.host.servers.supervisor import ChangeSignal, ServerSupervisor
from dovetail.host.tasks.host_task import HostTask
from dovetail.host.tasks.host_tasks import HostTasks, TasksContext
from dovetail.host.tasks.saved_tasks import SavedTasks
from dovetail.policy.approvals import Approvals
from dovetail.policy.audit.log import Audit, Decider, Unrecorded
from dovetail.policy.definitions import DefinitionKind
from dovetail.policy.inspection.inspector import inspect_names
from dovetail.policy.policy_file import build_policy
from dovetail.policy.user_decisions import SavedAnswers, ToolSwitches
from dovetail.protocol.errors import DovetailError, LocalError, Refused, ToolFailed
from dovetail.runtime.pending_requests import OnProgress
from dovetail.runtime.thread_pool import ThreadPool
from dovetail.types.messages import Completion
from dovetail.types.prompts import GetPromptResult
from dovetail.types.resources import ReadResourceResult
from dovetail.types.tools import CallToolResult

from .catalogue import Catalogue, HostPrompt, HostResource, HostTemplate, HostTool
from .error_results import error_result
from .events import HostEvent, LogLine, OnEvent, OnTraffic, ServerStatus, TrafficLine
from .limits import Limits
from .running_work import RunningWork, WorkInProgress

if TYPE_CHECKING:
    from dovetail.client.completion import Reference
    from dovetail.client.targets.secrets import Secrets
    from dovetail.config.config_watch import ConfigChange, ConfigWatch
    from dovetail.host.chat.chat import Chat
    from dovetail.policy.approval_questions import OnApprove
    from dovetail.policy.rules import Policy, Rule

logger = logging.getLogger("dovetail")

_LOOK_SECONDS = 1.0
"""Seconds between two looks at the configuration files."""


class Host:
    """Runs servers, applies the policy, asks the user for approval, and writes the audit log.

    Servers are started when something of them is wanted. `policy` adds rules to those of the user's and the project's
    files; what they want asked goes to `on_approve`, and is refused without it. `on_elicit` takes the key of a server
    and what it asks the user, `models` answer what servers ask of models, and `roots` are folders to tell them of.
    `lock` is the lockfile, `folder` the user's folder, which holds what the user said before, and the record.
    Models that are given to a host are closed with it.
    """

    def __init__(
        self,
        entries: Iterable[ServerEntry] = (),
        *,
        policy: Policy | Mapping[str, Any] | None = None,
        on_approve: OnApprove | None = None,
        on_elicit: OnHostElicit | None = None,
        on_event: OnEvent | None = None,
        on_traffic: OnTraffic | None = None,
        models: Sequence[Model] = (),
        roots: Sequence[str | os.PathLike[str]] = (),
        lock: str | os.PathLike[str] | None = None,
        audit: Audit | None = None,
        folder: str | os.PathLike[str] | None = None,
        project: str | os.PathLike[str] | None = None,
        secrets: Secrets | None = None,
        auth: OnAuth | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Start nothing yet; `project` is the folder whose rules may tighten the policy."""
        self._limits = limits or Limits()
        self._on_event = on_event
        self._on_traffic = on_traffic
        self._models, self._roots = tuple(models), tuple(roots)
        self._owns_audit = audit is None
        self._thread_pool = ThreadPool()
        self._change_signal = ChangeSignal()
        self._running_work = RunningWork()
        home = None if folder is None else Path(folder)
        self.audit = Audit(folder=home) if audit is None else audit
        self.on_context: OnContext | None = None
        """Gives what of the conversation a server may see, where the user grants it; nothing without it."""
        rules = build_policy(policy, folder=home, project=None if project is None else Path(project))
        self._prompts = UserPrompts(on_approve, on_elicit, self._emit, self._limits.max_questions, self._thread_pool)
        self._consent = Consent(rules, SavedAnswers(home), self._prompts, self.audit, self._thread_pool)
        self._launcher = Launcher(self._consent, Approvals(home), secrets, auth, self._limits, self._thread_pool)
        self._review = DefinitionReview(None if lock is None else Path(lock), home, self._thread_pool)
        self._switches = ToolSwitches(home)
        self._controller = ServerController(self._controller_context())
        self._servers = self._controller.servers
        self._catalogue = Catalogue(self._servers, self._review, self._switches)
        self._access = GuardedAccess(
            self._consent, self._review, self._switches, None if on_event is None else self._emit
        )
        self._tasks = HostTasks(
            TasksContext(
                consent=self._consent,
                saved_tasks=SavedTasks(home),
                servers=self._servers,
                change_signal=self._change_signal,
                thread_pool=self._thread_pool,
                emit=self._emit,
            )
        )
        self._watch: ConfigWatch | None = None
        self._warnings: tuple[str, ...] = ()
        self._reloading: asyncio.Task[None] | None = None
        self._open = False
        for entry in entries:
            self._add(entry)

    @classmethod
    def from_config(
        cls,
        *files: str | os.PathLike[str],
        watch: bool = True,
        optional: Sequence[str | os.PathLike[str]] = (),
        **options: Any,
    ) -> Self:
        """A host for the servers that files name; the lockfile and a project's rules stand beside the first of them.

        With `watch`, a change of the files is taken up while the host runs: only what changed restarts. Files that
        are `optional` count after the others, and need not be there yet.
        """
        from dovetail.config.config_watch import ConfigWatch

        if not files:
            raise LocalError('Name a configuration file, as in Host.from_config("mcp.json")')
        config = ConfigWatch(*files, optional=optional)
        beside = Path(files[0]).absolute().parent
        given: dict[str, Any] = {"lock": beside / "mcp.lock", "project": beside, **options}
        host = cls(config.config.entries, **given)
        host._watch = config if watch else None
        host._warnings = config.config.warnings
        return host

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Open the host; servers start when they are needed."""
        if self._open:
            raise LocalError("This host is open already")
        self._open = True
        for warning in self._warnings:
            self._emit(HostEvent(kind="config", detail=warning))
        self._warn_of_names()
        await self._tasks.reattach()
        if self._watch is not None:
            self._reloading = asyncio.create_task(self._reload(self._watch), name="dovetail-config")

    async def close(self) -> None:
        """Stop all work and every server; it takes a few seconds at most."""
        self._open = False
        reloading, self._reloading = self._reloading, None
        if reloading is not None:
            reloading.cancel()
            await asyncio.gather(reloading, return_exceptions=True)
        try:
            # Before questions are withdrawn: a task that asks one waits for the next host.
            await self._tasks.close()
            await self.stop()
            await self._controller.definitions.close()
        finally:
            await self._release()

    @property
    def servers(self) -> Mapping[str, ServerStatus]:
        """The status of each server, by its key."""
        return MappingProxyType({key: server.status for key, server in self._servers.items()})

    @property
    def models(self) -> Sequence[Model]:
        """The models that were given."""
        return self._models

    async def ready(self, *keys: str, timeout: float | None = None) -> None:
        """Start servers side by side and wait until each is ready or has failed; all of them if none is named."""
        servers = [self._server(key) for key in keys] or list(self._servers.values())
        self._want(servers)
        try:
            async with asyncio.timeout(timeout):
                while not all(server.settled for server in servers):
                    await self._change_signal.wait(self._limits.start_seconds)
        except TimeoutError:
            pass

    async def tools(self) -> list[HostTool]:
        """The tools that a model may be offered: of ready servers, switched on, and as they were approved.

        Servers that are starting for the first time are waited for, within bounds.
        """
        await self._gather()
        return self._catalogue.tools()

    async def prompts(self) -> list[HostPrompt]:
        """Prompts, by the commands that get them."""
        await self._gather()
        return self._catalogue.prompts()

    async def resources(self) -> list[HostResource]:
        """Resources, one server after the other."""
        await self._gather()
        return self._catalogue.resources()

    async def templates(self) -> list[HostTemplate]:
        """Resource templates, one server after the other."""
        await self._gather()
        return self._catalogue.templates()

    def switched_off(self) -> list[HostTool]:
        """Tools of ready servers that the user has switched off."""
        return self._catalogue.switched_off()

    def withheld(self) -> list[Withheld]:
        """Definitions that are held back until the user approves them: see `approve`."""
        return self._review.withheld()

    def instructions(self) -> dict[str, str]:
        """The approved instructions of each ready server, by its key; for a model."""
        return self._catalogue.instructions()

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        /,
        *,
        timeout: float | None = None,
        progress: OnProgress | None = None,
        check: bool = True,
        confirmed: bool = False,
        background_after: float | None = None,
        **named: Any,
    ) -> CallToolResult:
        """Call a tool by its name in the host's namespace; `Refused` when policy or user say no.

        `confirmed` says that the user has just agreed to this call with these arguments, in your own form: they are
        not asked again, and the audit log has it as their answer. A rule that denies the call still does.

        A call that becomes a task is waited for, and the task is cancelled if the call is. With `background_after` the
        wait ends after so many seconds: the result is then a `BackgroundResult`, and its `task` goes on.

        With `check` false refusals, lost connections and all other failures are results that say `is_error`, in words
        for a model. No call is ever made twice.
        """
        given = {**(arguments or {}), **named}
        try:
            with (piece := self._running_work.piece(f"the call of {name!r}")):
                result = await self._call(name, given, timeout, progress, confirmed)
                if isinstance(result, StartedTask):
                    task = await self._tasks.adopt(result, piece.number, in_background=background_after == 0)
                    result = await self._tasks.wait(task, timeout, background_after)
        except DovetailError as problem:
            if check:
                raise
            return error_result(problem)
        if check and result.is_error:
            raise ToolFailed(name, result)
        return result

    async def start(
        self, name: str, arguments: Mapping[str, Any] | None = None, /, *, confirmed: bool = False, **named: Any
    ) -> HostTask:
        """Call a tool as `call` does, and return its task without waiting for the result.

        A call that does not become a task is waited for, and the task that is returned has ended.
        """
        with self._running_work.piece(f"the call of {name!r}"):
            outcome = await self._call(name, {**(arguments or {}), **named}, None, None, confirmed)
            if isinstance(outcome, StartedTask):
                return await self._tasks.adopt(outcome, None, in_background=True)
        tool = await self._find_tool(name)
        return self._tasks.ended(tool.server, tool.tool.name, outcome)

    def tasks(self) -> list[HostTask]:
        """Tasks that are running, and the latest that have ended, oldest first."""
        return self._tasks.all()

    async def prompt(
        self, command: str | tuple[str, str], arguments: Mapping[str, str] | None = None
    ) -> GetPromptResult:
        """Get a prompt by its command, as `/mcp.server.prompt`, or by the key of a server and what that calls it."""
        with self._running_work.piece(f"the prompt {command!r}"):
            if isinstance(command, str):
                await self._until(lambda: self._catalogue.find_prompt(command) is not None)
            else:
                await self._server(command[0]).connected()
            prompt = self._catalogue.find_prompt(command)
            if prompt is None:
                raise LocalError(f"There is no prompt {command!r}")
            return await self._access.get_prompt(prompt, self._server(prompt.server), dict(arguments or {}))

    async def read(self, server: str, uri: str) -> ReadResourceResult:
        """Read a resource of a server."""
        with self._running_work.piece(f"the reading of {uri!r}"):
            return await self._access.read_resource(self._server(server), uri)

    async def complete(
        self,
        server: str,
        reference: Reference,
        argument: str,
        value: str,
        *,
        context: Mapping[str, str] | None = None,
    ) -> Completion:
        """Suggestions of a server for an argument of its prompt, or for a variable of its template."""
        connected = await self._server(server).connected()
        return await connected.client.complete(reference, argument, value, context=context)

    async def subscribe(self, server: str, uri: str) -> None:
        """Subscribe to a resource: changes are `resource` events, also after a restart of the server."""
        await self._access.subscribe(self._server(server), uri)

    async def unsubscribe(self, server: str, uri: str) -> None:
        """Unsubscribe from a resource."""
        await self._server(server).unsubscribe(uri)

    async def restart(self, key: str) -> None:
        """Restart a server, also one that has failed."""
        server = self._server(key)
        if server.entry.problem is not None or not server.entry.enabled:
            raise LocalError(server.entry.problem or f"The server {key!r} is switched off")
        self._check_open()
        await server.restart()

    async def set_enabled(self, key: str, enabled: bool) -> None:
        """Have a server or not, for as long as this host runs; for longer, change the configuration."""
        server = self._server(key)
        if server.entry.enabled != enabled:
            await self._become(server, msgspec.structs.replace(server.entry, enabled=enabled))
            await self._record_config(key, "switched on" if enabled else "switched off", "person")

    async def set_tool(self, server: str, tool: str, enabled: bool) -> None:
        """Offer a tool from now on, or not, in every host of this user; `tool` is what the server calls it."""
        self._server(server)
        turn = self._switches.turn_on if enabled else self._switches.turn_off
        await self._record_config(server, f"tool {tool} switched {'on' if enabled else 'off'}", "person")
        await self._thread_pool.run(lambda: turn(server, tool))
        self._emit(HostEvent(kind="lists", server=server, detail="tools"))

    async def trust(self, key: str, trusted: bool) -> None:
        """Believe what a server says of its tools, or not; bound to how it is started, and kept."""
        server = self._server(key)
        await self._launcher.trust(server.entry, trusted)
        server.update(trusted=trusted)

    async def approve(self, server: str, kind: DefinitionKind, name: str, digest: str | None = None) -> None:
        """Take up a definition that is held back; with the `digest` that `withheld` has, only what was shown there."""
        finding = self._review.held(server, kind, name)
        if finding is None:
            raise not_withheld(server, kind, name)
        if digest not in (None, finding.definition.digest):
            raise Refused(f"The {kind} {name!r} of {server!r} has changed since it was shown; look at it again")
        await self._controller.definitions.approve(finding, "person", "approved by name")

    def logs(self, key: str) -> Sequence[LogLine]:
        """The latest of what a server wrote and logged, and what there was to say of it."""
        return self._server(key).log.lines()

    def traffic(self, key: str | None = None) -> Sequence[TrafficLine]:
        """The latest messages, of one server or of all."""
        if key is not None:
            return self._server(key).log.messages()
        lines = [line for server in self._servers.values() for line in server.log.messages()]
        return sorted(lines, key=lambda line: line.at)

    async def stop(self) -> None:
        """Stop all that is under way: servers are told that calls are cancelled, questions are withdrawn.

        The host stays open, and its servers keep running.
        """
        await asyncio.gather(self._running_work.stop(), self._prompts.questions.stop())

    def running(self) -> list[WorkInProgress]:
        """The calls and other work that is running now, oldest first."""
        return self._running_work.in_progress()

    def cancel(self, number: int) -> bool:
        """Cancel what `running` has under a number; the server is told. Whether it was still running."""
        return self._running_work.cancel(number)

    @property
    def policy(self) -> Policy:
        """The rules in force: those that were given, and those of the user's and the project's files."""
        return self._consent.policy

    def saved_answers(self) -> list[Rule]:
        """Answers of the user that are remembered, as rules: for this session first, then for always."""
        return self._consent.saved_rules()

    def chat(self, **options: Any) -> Chat:
        """A conversation with a model that may use the servers; the options are those of `Chat`."""
        from dovetail.host.chat.chat import Chat

        return Chat(self, **options)

    async def _call(
        self, name: str, given: dict[str, Any], timeout: float | None, progress: OnProgress | None, confirmed: bool
    ) -> CallToolResult | StartedTask:
        tool = await self._find_tool(name)
        server = self._servers[tool.server]
        # The user may have withdrawn their trust in another process.
        if server.status.trusted != (trusted := self._launcher.trusted(server.entry)):
            server.update(trusted=trusted)
        return await self._access.call_tool(tool, server, given, timeout, progress, confirmed)

    def _server(self, key: str) -> ServerSupervisor:
        server = self._servers.get(key)
        if server is None:
            known = ", ".join(map(repr, self._servers)) or "none"
            raise LocalError(f"There is no server {key!r}; the configuration has {known}")
        return server

    def _check_open(self) -> None:
        if not self._open:
            raise LocalError("This host is not open: use `async with Host(…)`, or await open()")

    def _want(self, servers: Iterable[ServerSupervisor]) -> None:
        self._check_open()
        for server in servers:
            server.want()

    async def _release(self) -> None:
        try:
            await asyncio.gather(*(server.close() for server in self._servers.values()))
            await asyncio.gather(*(model.close() for model in self._models), return_exceptions=True)
        finally:
            try:
                # Both wait for the disk. A log that was given to the host stays open.
                await self._thread_pool.run(self.audit.close if self._owns_audit else self.audit.flush)
            finally:
                self._thread_pool.stop()
                await asyncio.sleep(0)  # in the next turn the event loop releases the descriptor of the pool

    async def _gather(self) -> None:
        """Start what is not running, and wait for first starts, each for so long and no longer."""
        self._want(self._servers.values())
        loop = asyncio.get_running_loop()
        while (left := max((each.delays(loop.time()) for each in self._servers.values()), default=0.0)) > 0:
            await self._change_signal.wait(left)
        await self._controller.definitions.review_again()

    async def _until(self, there: Callable[[], bool]) -> None:
        """Wait until something is there, or every server that might bring it is settled or takes too long."""
        self._want(self._servers.values())
        loop = asyncio.get_running_loop()
        while not there():
            left = max((each.delays(loop.time()) for each in self._servers.values()), default=0.0)
            if left <= 0:
                break
            await self._change_signal.wait(left)

    async def _find_tool(self, name: str) -> HostTool:
        self._check_open()
        tool = self._catalogue.find_tool(name)
        if tool is None:
            await self._wait_for_owner(name)
            await self._until(lambda: self._catalogue.find_tool(name) is not None)
        if await self._controller.definitions.review_again() or tool is None:
            tool = self._catalogue.find_tool(name)
        if tool is None:
            raise LocalError(f"There is no tool {name!r}{self._catalogue.why_not(name)}")
        return tool

    async def _wait_for_owner(self, name: str) -> None:
        """Wait for the server that had a tool, if it is being restarted."""
        owner = self._servers.get(self._catalogue.owner(name) or "")
        if owner is not None:
            await owner.connected(self._limits.wait_seconds)

    def _controller_context(self) -> ControllerContext:
        requests = RequestContext(
            consent=self._consent,
            prompts=self._prompts,
            running_work=self._running_work,
            models=self._models,
            roots=self._roots,
            on_context=lambda: self.on_context,
            limits=self._limits,
        )
        return ControllerContext(
            consent=self._consent,
            prompts=self._prompts,
            launcher=self._launcher,
            review=self._review,
            running_work=self._running_work,
            request_handlers=lambda key, identity: ServerRequestHandlers(key, identity, requests),
            emit=self._emit,
            on_traffic=None if self._on_traffic is None else self._tell_traffic,
            limits=self._limits,
        )

    def _add(self, entry: ServerEntry) -> None:
        if entry.key in self._servers:
            raise LocalError(f"There are two servers {entry.key!r}")
        self._servers[entry.key] = ServerSupervisor(entry, self._controller, self._limits, self._change_signal)

    async def _become(self, server: ServerSupervisor, entry: ServerEntry) -> None:
        was_wanted = server.status.state not in ("disabled", "idle")
        await server.become(entry)
        others_run = any(each.status.state == "ready" for each in self._servers.values())
        if self._open and (was_wanted or others_run):
            server.want()

    async def _reload(self, watch: ConfigWatch) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                change = await self._thread_pool.run(watch.check)
                if change is not None:
                    await self._apply(change)
            except DovetailError as problem:
                self._emit(HostEvent(kind="config", detail=str(problem)))

    async def _apply(self, change: ConfigChange) -> None:
        """Take up a change of the configuration: servers that it does not touch keep running."""
        for entry in change.removed:
            server = self._servers.pop(entry.key, None)
            if server is not None:
                await server.close()
                await self._note_config(entry.key, "removed")
        for _, entry in change.changed:
            server = self._servers.get(entry.key)
            if server is not None:
                await self._become(server, entry)
                await self._note_config(entry.key, f"changed in {entry.origin}")
        for entry in change.added:
            if entry.key not in self._servers:
                self._add(entry)
                await self._become(self._servers[entry.key], entry)
                await self._note_config(entry.key, f"added in {entry.origin}")
        for warning in change.warnings:
            self._emit(HostEvent(kind="config", detail=warning))
        if change.added:
            self._warn_of_names()

    def _warn_of_names(self) -> None:
        """Tell of keys that look like one another, behind which a server might hide."""
        for concern in inspect_names(self._servers):
            self._emit(HostEvent(kind="config", detail=str(concern)))

    async def _record_config(self, key: str, what: str, by: Decider | None) -> None:
        await self.audit.record("config", server=key, by=by, change=what)
        self._emit(HostEvent(kind="config", server=key, detail=what))
        self._change_signal.notify()

    async def _note_config(self, key: str, what: str) -> None:
        """Record what others have changed; where that fails the rest is taken up all the same, and nothing starts."""
        try:
            await self._record_config(key, what, None)
        except Unrecorded as problem:
            self._emit(HostEvent(kind="config", server=key, detail=f"{what}; {problem}"))

    def _emit(self, event: HostEvent) -> None:
        if event.kind in ("status", "lists", "definition", "config"):
            self._catalogue.forget()
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception:
            logger.exception("on_event failed")

    def _tell_traffic(self, line: TrafficLine) -> None:
        assert self._on_traffic is not None
        try:
            self._on_traffic(line)
        except Exception:
            logger.exception("on_traffic failed")
