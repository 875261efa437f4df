"""Rewriting of servers on the low-level class of the official SDK, first major version.

Its handlers list things and dispatch by name. The functions stay as they are: a loop after them registers each thing
that is listed with the function that serves it. That is sound if the list does not change while the server runs.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import NamedTuple

from dovetail.server.other_names import CONSTRUCTOR_OPTIONS, SERVER_MEMBERS

from .contexts import uri_part
from .edits import Part
from .vocabulary import STDIO
from .workspace import Workspace


class Handlers(NamedTuple):
    """Names of a pair of handlers, and the noun of what they list and serve."""

    listing: str
    serving: str
    noun: str


_PAIRS = (
    Handlers("list_tools", "call_tool", "tool"),
    Handlers("list_prompts", "get_prompt", "prompt"),
    Handlers("list_resources", "read_resource", "resource"),
)
_NO_PAIR: Mapping[str, str] = {
    "list_resource_templates": "write @server.resource(uri_template) on a function for each template",
    "completion": "write @server.completion(reference, argument) for each argument",
    "progress_notification": SERVER_MEMBERS["progress_notification"],
    "set_logging_level": SERVER_MEMBERS["set_logging_level"],
    "subscribe_resource": SERVER_MEMBERS["subscribe_resource"],
    "unsubscribe_resource": SERVER_MEMBERS["unsubscribe_resource"],
}
Function = ast.AsyncFunctionDef


class LowLevelServers:
    """Rewrites the handlers of low-level servers, and how they are run."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._source = workspace.source
        self._handlers: dict[tuple[str, str], Function] = {}
        """Functions by the text of the server and the name of the decorator."""

    def rewrite(self) -> None:
        """Rewrite all pairs of handlers, the ways to run, and report the rest."""
        for call in self._workspace.calls():
            if self._workspace.kind_of_class(call.func) == "low-level":
                self._check_constructor(call)
        for node in self._workspace.walk(ast.AsyncFunctionDef):
            assert isinstance(node, ast.AsyncFunctionDef)
            self._collect(node)
        for server in dict.fromkeys(server for server, _ in self._handlers):
            for pair in _PAIRS:
                self._rewrite_pair(server, pair)
        for node in self._workspace.walk(ast.AsyncWith):
            assert isinstance(node, ast.AsyncWith)
            self._rewrite_run(node)
        self._rewrite_requests()

    def _check_constructor(self, call: ast.Call) -> None:
        for keyword in call.keywords:
            if keyword.arg and keyword.arg.startswith("on_"):
                advice = CONSTRUCTOR_OPTIONS.get(keyword.arg, "see docs/migrating.md")
                self._workspace.note(keyword, f"a server has no option {keyword.arg}", advice)

    def _collect(self, function: Function) -> None:
        for decorator in function.decorator_list:
            if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
                continue
            owner, name = decorator.func.value, decorator.func.attr
            if self._workspace.kind_of(owner) != "low-level":
                continue
            if name in _NO_PAIR:
                self._workspace.note(decorator, f"@server.{name}() has no counterpart", _NO_PAIR[name])
            else:
                self._handlers[self._source.segment(owner), name] = function

    def _rewrite_pair(self, server: str, pair: Handlers) -> None:
        listing = self._handlers.get((server, pair.listing))
        serving = self._handlers.get((server, pair.serving))
        if listing is None and serving is None:
            return
        if listing is None or serving is None:
            only = listing or serving
            assert only is not None
            self._workspace.note(only, f"one of {pair.listing} and {pair.serving} is missing", _by_hand(pair.noun))
            return
        problem = self._problem(listing, serving, pair)
        if problem is not None:
            self._workspace.note(listing, problem, _by_hand(pair.noun))
            return
        for function in (listing, serving):
            self._remove_decorator(function)
        start = self._source.span(listing).start
        text = self._source.text[start:]
        self._source.delete(start, start + len("async") + len(text[5:]) - len(text[5:].lstrip()))
        self._register(server, pair, listing, serving)

    def _problem(self, listing: Function, serving: Function, pair: Handlers) -> str | None:
        """The reason why a pair of handlers cannot be rewritten."""
        if self._workspace.names.parent_of(listing) is not self._workspace.names.parent_of(serving):
            return f"{listing.name} and {serving.name} are in different blocks"
        if len(listing.decorator_list) != 1 or len(serving.decorator_list) != 1:
            return f"{listing.name} or {serving.name} has further decorators"
        if listing.args.args or len(serving.args.args) != (1 if pair.noun == "resource" else 2):
            return f"{listing.name} or {serving.name} has other parameters than usual"
        if not _lists_constants(listing):
            return f"{listing.name} does more than return a list that is written out"
        for node in self._workspace.walk(ast.Name):
            if isinstance(node, ast.Name) and node.id == listing.name and isinstance(node.ctx, ast.Load):
                return f"{listing.name} is called elsewhere too"
        return None

    def _remove_decorator(self, function: Function) -> None:
        decorator = function.decorator_list[0]
        start = self._source.line_start(self._source.span(decorator).start)
        self._source.delete(start, self._source.line_start(self._source.span(function).start))

    def _register(self, server: str, pair: Handlers, listing: Function, serving: Function) -> None:
        self._workspace.modules.add("functools")
        later = max(listing, serving, key=lambda function: function.lineno)
        indentation, newline = self._source.indentation(listing), self._source.newline
        variable = pair.noun if self._workspace.is_unused(pair.noun) else f"listed_{pair.noun}"
        uri = self._takes_url(serving)
        lines = _REGISTER[pair.noun](server, listing.name, serving.name, variable, uri)
        text = "".join(f"{newline}{indentation}{line}" for line in lines)
        separator = newline if indentation else newline * 2
        self._source.insert(self._source.span(later).end, separator + text)

    def _takes_url(self, serving: Function) -> str | None:
        """The class of the parameter of a function that reads resources, if it is not a string."""
        hint = serving.args.args[0].annotation
        if isinstance(hint, (ast.Name, ast.Attribute)) and self._source.segment(hint).endswith("Url"):
            return self._source.segment(hint)
        return None

    def _rewrite_run(self, node: ast.AsyncWith) -> None:
        """Turn `async with stdio_server() as (read, write): await server.run(read, write, …)` into `run_async()`."""
        item = node.items[0].context_expr
        if not isinstance(item, ast.Call) or self._workspace.names.qualified(item.func) != STDIO:
            return
        last = node.body[-1]
        run = last.value.value if isinstance(last, ast.Expr) and isinstance(last.value, ast.Await) else None
        server = run.func.value if isinstance(run, ast.Call) and isinstance(run.func, ast.Attribute) else None
        if len(node.items) != 1 or not isinstance(run, ast.Call) or self._workspace.kind_of(server) != "low-level":
            self._workspace.note(node, "stdio_server() is used in an unusual way", "write await server.run_async()")
            return
        assert server is not None
        if not self._is_plain_block(node):
            self._workspace.note(node, "the block around server.run has more in it", "write await server.run_async()")
            return
        self._dedent(node)
        self._source.replace(self._source.span(last), f"await {self._source.segment(server)}.run_async()")
        self._workspace.understood.add(id(item.func))
        self._take_options(run, server)

    def _is_plain_block(self, node: ast.AsyncWith) -> bool:
        """True if the body can be moved to the left: no streams are used but by `run`, and no text spans lines."""
        target = node.items[0].optional_vars
        streams: set[str] = set()
        if target is not None:
            streams = {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
        for statement in node.body[:-1]:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.Name) and inner.id in streams:
                    return False
                if isinstance(inner, (ast.Constant, ast.JoinedStr)) and inner.lineno != inner.end_lineno:
                    return False
        return node.body[0].lineno > node.lineno

    def _dedent(self, node: ast.AsyncWith) -> None:
        outer, first = self._source.indentation(node), node.body[0]
        inner = self._source.indentation(first)
        start = self._source.line_start(self._source.span(node).start)
        body = self._source.line_start(self._source.span(first).start)
        self._source.delete(start, body)
        position, last = body, self._source.span(node.body[-1]).start
        while position <= last:
            if self._source.text.startswith(inner, position):
                self._source.delete(position + len(outer), position + len(inner))
            position = self._source.line_end(position)

    def _take_options(self, run: ast.Call, server: ast.expr) -> None:
        """Give the constructor the name and version that were in `InitializationOptions`."""
        options = run.args[2] if len(run.args) > 2 else None
        for inner in ast.walk(run):
            self._workspace.understood.add(id(inner))
        if not isinstance(options, ast.Call) or not options.keywords:
            return
        given = {keyword.arg: keyword.value for keyword in options.keywords}
        constructor = self._constructor(server)
        name, version = given.get("server_name"), given.get("server_version")
        if constructor is None or len(constructor.args) != 1:
            self._workspace.note(options, "the name and version of the server are here", "give them to Server(…)")
            return
        arguments = self._workspace.arguments(constructor)
        if isinstance(name, ast.Constant):
            self._source.replace(self._source.span(constructor.args[0]), self._source.segment(name))
        if version is not None and arguments.keyword("version") is None:
            arguments.add(f"version={self._source.segment(version)}")
        arguments.finish()

    def _constructor(self, server: ast.expr) -> ast.Call | None:
        if isinstance(server, ast.Name):
            for binding in self._workspace.names.bindings(server):
                if isinstance(binding.value, ast.Call):
                    return binding.value
        return None

    def _rewrite_requests(self) -> None:
        """Rewrite `server.request_context…`, and report other members that have no counterpart."""
        for node in self._workspace.walk(ast.Attribute):
            assert isinstance(node, ast.Attribute)
            if self._workspace.kind_of(node.value) != "low-level" or id(node) in self._workspace.understood:
                continue
            server = self._source.segment(node.value)
            outer = self._workspace.names.parent_of(node)
            method = self._workspace.names.parent_of(outer) if isinstance(outer, ast.Attribute) else None
            call = self._workspace.names.parent_of(method) if isinstance(method, ast.Attribute) else None
            awaited = self._workspace.names.parent_of(call) if isinstance(call, ast.Call) else None
            if (
                node.attr == "request_context"
                and isinstance(method, ast.Attribute)
                and method.attr == "send_resource_updated"
                and isinstance(call, ast.Call)
                and isinstance(awaited, ast.Await)
                and call.args
            ):
                part: Part = uri_part(self._workspace, call.args[0])
                self._source.replace(self._source.span(awaited), f"{server}.notify_resource_updated(", part, ")")
            elif node.attr in ("name", "version", "instructions", "website_url", "icons") and isinstance(
                node.ctx, ast.Load
            ):
                self._rewrite_info(node)
            elif node.attr in SERVER_MEMBERS and not self._is_decorator(node):
                self._workspace.note(node, f"a server has no attribute {node.attr}", SERVER_MEMBERS[node.attr])

    def _rewrite_info(self, node: ast.Attribute) -> None:
        if node.attr != "instructions":
            end = self._source.span(node).end
            self._source.insert(end - len(node.attr), "info.")

    def _is_decorator(self, node: ast.Attribute) -> bool:
        return any(node.attr in (pair.listing, pair.serving) for pair in _PAIRS) or node.attr in _NO_PAIR


def _lists_constants(function: Function) -> bool:
    """True if a function only returns a list display, after a docstring and calls of a logger at most."""
    *before, last = function.body
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.List):
        return False
    if any(isinstance(node, (ast.Await, ast.Starred)) for node in ast.walk(last)):
        return False
    return all(isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Await) for statement in before)


def _by_hand(noun: str) -> str:
    uri = "uri, …)(function" if noun == "resource" else "function, …"
    return f"register each with server.{noun}({uri}); see docs/migrating.md"


def _register_tools(server: str, listing: str, serving: str, tool: str, url: str | None) -> list[str]:
    return [
        f"for {tool} in {listing}():",
        f"    {server}.tool(",
        f"        functools.partial({serving}, {tool}.name),",
        f"        name={tool}.name,",
        f'        description={tool}.description or "",',
        f"        input_schema={tool}.input_schema,",
        f"        output_schema={tool}.output_schema,",
        "    )",
    ]


def _register_prompts(server: str, listing: str, serving: str, prompt: str, url: str | None) -> list[str]:
    return [
        f"for {prompt} in {listing}():",
        f"    {server}.prompt(",
        f"        functools.partial({serving}, {prompt}.name),",
        f"        name={prompt}.name,",
        f'        description={prompt}.description or "",',
        f"        arguments={prompt}.arguments or [],",
        "    )",
    ]


def _register_resources(server: str, listing: str, serving: str, resource: str, url: str | None) -> list[str]:
    uri = f"{resource}.uri" if url is None else f"{url}({resource}.uri)"
    return [
        f"for {resource} in {listing}():",
        f"    {server}.resource(",
        f"        {resource}.uri,",
        f"        name={resource}.name,",
        f'        description={resource}.description or "",',
        f'        mime_type={resource}.mime_type or "text/plain",',
        f"    )(functools.partial({serving}, {uri}))",
    ]


_REGISTER = {"tool": _register_tools, "prompt": _register_prompts, "resource": _register_resources}
