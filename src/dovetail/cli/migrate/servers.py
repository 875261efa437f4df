"""Rewriting of servers: their constructors, and how they are run and served over HTTP."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from dovetail.server.other_names import CONSTRUCTOR_OPTIONS, HTTP_OPTIONS, MOUNT_OPTIONS, SERVER_MEMBERS

from .edits import Arguments, Part, Span
from .vocabulary import LOW_LEVEL_CLASSES, NEW_SERVER_CLASSES, SERVER_CLASSES
from .workspace import Workspace

_POSITIONAL: Mapping[str, Sequence[str]] = {
    "fastmcp": ("name", "instructions"),
    "mcpserver": ("name", "title", "description", "instructions"),
    "low-level": ("name", "version", "instructions"),
}
"""The positional parameters of the constructors."""

_KEPT = frozenset(
    {"name", "title", "description", "instructions", "version", "website_url", "icons", "lifespan", "extensions"}
)
_DROPPED: Mapping[str, str] = {
    "debug": CONSTRUCTOR_OPTIONS["debug"],
    "log_level": CONSTRUCTOR_OPTIONS["log_level"],
    "dependencies": CONSTRUCTOR_OPTIONS["dependencies"],
    "subscriptions": "clients may always subscribe, and lists always notify of changes",
    **{name: text for name, text in CONSTRUCTOR_OPTIONS.items() if "duplicate" in name},
}
"""Options without a counterpart that can be left out, with what to know about it."""

_OVER_HTTP = frozenset(
    {"host", "port", "stateless_http", "json_response", "streamable_http_path", "sse_path", "message_path"}
)
"""Options of a constructor that belong to `run` here."""

_RUN_DROPPED = frozenset({"log_level", "show_banner", "sse_path", "message_path"})
_RUN_KEPT = frozenset({"transport", "host", "port", "path", "json_response", "uds", "workers", "sessions", "grace"})
_RUN_RENAMED = {
    "streamable_http_path": "path",
    "max_request_body_size": "max_body",
    "session_idle_timeout": "session_idle",
    "max_sessions": "max_sessions",
    "allowed_hosts": "allowed_hosts",
    "allowed_origins": "allowed_origins",
}
_RUN_METHODS = {
    "run_async": "run_async",
    "run_stdio_async": "run_async",
    "run_http_async": "run_async",
    "run_streamable_http_async": "run_async",
    "run_sse_async": "run_async",
    "run": "run",
}
_APP_METHODS = ("http_app", "streamable_http_app", "sse_app")
_INFO = ("name", "title", "version", "description", "website_url", "icons")


class Servers:
    """Rewrites constructors and members of servers."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._source = workspace.source
        self._http_options: dict[str, list[tuple[str, str]]] = {}
        """Options that constructors had for HTTP, by the text of the variable."""

    def rewrite(self) -> None:
        """Rewrite all constructors, then all members."""
        for call in self._workspace.calls():
            kind = self._workspace.kind_of_class(call.func)
            qualified = self._workspace.names.qualified(call.func)
            if kind in ("server", "low-level") and qualified is not None and not qualified.startswith("dovetail."):
                self._rewrite_constructor(call, qualified)
        for node in self._workspace.walk(ast.Attribute):
            assert isinstance(node, ast.Attribute)
            kind = self._workspace.kind_of(node.value)
            if kind == "server":
                self._rewrite_member(node)
            elif kind == "our server":
                self._report_member(node)

    def _rewrite_constructor(self, call: ast.Call, qualified: str) -> None:
        workspace, arguments = self._workspace, self._workspace.arguments(call)
        library = "fastmcp" if SERVER_CLASSES.match(qualified) else "mcpserver"
        if LOW_LEVEL_CLASSES.match(qualified) and not NEW_SERVER_CLASSES.match(qualified):
            library = "low-level"
        if not arguments.is_plain:
            workspace.note(call, "options of the server are unpacked", "check them against docs/api.md")
            return
        if not arguments.items:
            arguments.add('"server"')
            workspace.note(call, "the server had no name", "give it one")
        for name, argument in zip(_POSITIONAL[library][1:], call.args[1:], strict=False):
            arguments.name(argument, name)
        for keyword in call.keywords:
            self._rewrite_option(call, arguments, keyword)
        arguments.finish()

    def _rewrite_option(self, call: ast.Call, arguments: Arguments, keyword: ast.keyword) -> None:
        name = keyword.arg or ""
        value = keyword.value
        is_none = isinstance(value, ast.Constant) and value.value is None
        if name in _KEPT:
            return
        if is_none or name in _DROPPED:
            arguments.remove(keyword)
            if name in _DROPPED and not is_none:
                self._workspace.note(keyword, f"{name}= is gone from the server", _DROPPED[name])
        elif name in _OVER_HTTP and (option := self._http_option(name, value)) is not None:
            variable = self._variable(call, value)
            if variable is None:
                self._workspace.note(keyword, f"a server has no option {name}", CONSTRUCTOR_OPTIONS[name])
            else:
                arguments.remove(keyword)
                self._http_options.setdefault(variable, []).append(option)
        elif name == "list_page_size":
            arguments.rename(keyword, "page_size")
        elif name == "experimental_capabilities":
            arguments.rename(keyword, "experimental")
        elif name in ("middleware", "auth"):
            self._workspace.note(keyword, f"{name}= takes something else here", "see docs/migrating.md")
        else:
            advice = CONSTRUCTOR_OPTIONS.get(name, "see docs/api.md")
            self._workspace.note(keyword, f"a server has no option {name}", advice)

    def _variable(self, call: ast.Call, value: ast.expr) -> str | None:
        """The variable that gets the server, if an option can be moved to each place where the server is run.

        The transport must be written out there, and names in the value must mean the same.
        """
        parent = self._workspace.names.parent_of(call)
        if not (
            isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name)
        ):
            return None
        variable, runs = parent.targets[0].id, 0
        for node in self._workspace.walk(ast.Attribute):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != variable:
                continue
            if node.attr in _APP_METHODS:
                return None
            if node.attr in _RUN_METHODS:
                runs += 1
                if not self._is_written_out(node) or not self._means_the_same(value, node):
                    return None
        return variable if runs else None

    def _is_written_out(self, run: ast.Attribute) -> bool:
        call = self._workspace.names.parent_of(run)
        if not isinstance(call, ast.Call):
            return False
        given = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in ("transport", None))]
        return all(isinstance(transport, ast.Constant) for transport in given)

    def _means_the_same(self, value: ast.expr, place: ast.AST) -> bool:
        scope = self._workspace.names.scope_of(place)
        return all(
            self._workspace.names.bindings(name) == scope.lookup(name.id)
            for name in ast.walk(value)
            if isinstance(name, ast.Name)
        )

    def _http_option(self, name: str, value: ast.expr) -> tuple[str, str] | None:
        """An option of `run` as name and text; the text is empty if nothing needs to be said."""
        is_simple = isinstance(value, (ast.Constant, ast.Name, ast.Attribute))
        if name in ("sse_path", "message_path"):
            return name, ""
        if not is_simple:
            return None
        text = self._source.segment(value)
        if name == "stateless_http":
            return "sessions", _negated(value, text)
        return _RUN_RENAMED.get(name, name), text

    def _rewrite_member(self, node: ast.Attribute) -> None:
        name = node.attr
        call = self._workspace.names.parent_of(node)
        is_call = isinstance(call, ast.Call) and call.func is node
        if name in _RUN_METHODS and is_call:
            assert isinstance(call, ast.Call)
            self._rewrite_run(node, call)
        elif name in _APP_METHODS and is_call:
            assert isinstance(call, ast.Call)
            self._rewrite_app(node, call)
        elif name == "mount" and is_call:
            assert isinstance(call, ast.Call)
            self._rewrite_mount(call)
        elif name in _INFO and isinstance(node.ctx, ast.Load) and not self._is_own_attribute(node):
            self._replace_attribute(node, f"info.{name}")
        elif name not in ("add_tool", "add_prompt"):
            self._report_member(node)

    def _report_member(self, node: ast.Attribute) -> None:
        name = node.attr
        if name in SERVER_MEMBERS and not self._is_own_attribute(node):
            self._workspace.note(node, f"a server has no attribute {name}", SERVER_MEMBERS[name])

    def _is_own_attribute(self, node: ast.Attribute) -> bool:
        """True for an attribute of a subclass, which may set it itself."""
        return isinstance(node.value, ast.Name) and node.value.id == "self"

    def _replace_attribute(self, node: ast.Attribute, name: str) -> None:
        end = self._source.span(node).end
        self._source.replace(Span(end - len(node.attr), end), name)

    def _rewrite_run(self, node: ast.Attribute, call: ast.Call) -> None:
        arguments = self._workspace.arguments(call)
        over_http = node.attr in ("run_http_async", "run_streamable_http_async", "run_sse_async")
        transport: ast.expr | None = arguments.positional(0)
        given = arguments.keyword("transport")
        if transport is None and given is not None:
            transport = given.value
        if _RUN_METHODS[node.attr] != node.attr:
            self._replace_attribute(node, _RUN_METHODS[node.attr])
        if isinstance(transport, ast.Constant) and transport.value in ("streamable-http", "streamable_http"):
            self._source.replace(self._source.span(transport), '"http"')
        for keyword in call.keywords:
            self._rewrite_run_option(arguments, keyword)
        constant = transport.value if isinstance(transport, ast.Constant) else None if transport else "stdio"
        if over_http and transport is None:
            open_parenthesis = self._source.text.index("(", self._source.span(node).end) + 1
            self._source.insert(open_parenthesis, '"http", ' if call.keywords else '"http"')
        self._add_http_options(call, node, arguments, "http" if over_http else constant)
        if not (over_http and transport is None and not call.keywords):
            arguments.finish()

    def _add_http_options(self, call: ast.Call, node: ast.Attribute, arguments: Arguments, transport: object) -> None:
        options = [
            (name, text)
            for name, text in self._http_options.get(self._source.segment(node.value), [])
            if text and arguments.keyword(name) is None
        ]
        if not options or transport == "stdio":
            return
        written = [f"{name}={text}" for name, text in options]
        if call.args or call.keywords:
            for text in written:
                arguments.add(text)
        else:
            self._source.insert(self._source.span(call).end - 1, "".join(f", {text}" for text in written))

    def _rewrite_run_option(self, arguments: Arguments, keyword: ast.keyword) -> None:
        name = keyword.arg
        if name is None:
            self._workspace.note(keyword, "options of run are unpacked", "check them against docs/api.md")
        elif name in _RUN_KEPT:
            return
        elif name in _RUN_RENAMED:
            arguments.rename(keyword, _RUN_RENAMED[name])
        elif name in ("stateless_http", "stateless"):
            self._rewrite_stateless(arguments, keyword)
        elif name in _RUN_DROPPED:
            arguments.remove(keyword)
            if name == "log_level":
                self._workspace.note(keyword, "log_level= is gone from run", HTTP_OPTIONS[name])
        else:
            self._workspace.note(keyword, f"run has no option {name}", HTTP_OPTIONS.get(name, "see docs/api.md"))

    def _rewrite_stateless(self, arguments: Arguments, keyword: ast.keyword) -> None:
        value = keyword.value
        arguments.rename(keyword, "sessions")
        span = self._source.span(value)
        if isinstance(value, ast.Constant):
            self._source.replace(span, str(not value.value))
        else:
            is_simple = isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
            parts: tuple[Part, ...] = ("not ", span) if is_simple else ("not (", span, ")")
            self._source.replace(span, *parts)

    def _rewrite_app(self, node: ast.Attribute, call: ast.Call) -> None:
        parent = self._workspace.names.parent_of(call)
        if isinstance(parent, ast.Attribute):
            self._workspace.note(node, f"{node.attr}() is used for .{parent.attr}", SERVER_MEMBERS[node.attr])
            return
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            variable = parent.targets[0].id
            for use in self._workspace.walk(ast.Attribute):
                if isinstance(use, ast.Attribute) and isinstance(use.value, ast.Name) and use.value.id == variable:
                    self._workspace.note(
                        use, f"the application has no {use.attr}", "server.asgi() needs no lifespan around it"
                    )
        arguments = self._workspace.arguments(call)
        self._replace_attribute(node, "asgi")
        for keyword in call.keywords:
            if keyword.arg == "transport":
                arguments.remove(keyword)
            else:
                self._rewrite_run_option(arguments, keyword)
        arguments.finish()

    def _rewrite_mount(self, call: ast.Call) -> None:
        arguments = self._workspace.arguments(call)
        if call.args and isinstance(call.args[0], ast.Constant):
            self._workspace.note(call, "mount has the prefix first", "write server.mount(other, prefix=…)")
            return
        prefix = arguments.positional(1)
        if prefix is not None:
            arguments.name(prefix, "prefix")
        for keyword in call.keywords:
            if keyword.arg == "namespace":
                arguments.rename(keyword, "prefix")
            elif keyword.arg is not None and keyword.arg in MOUNT_OPTIONS:
                self._workspace.note(keyword, f"mount has no option {keyword.arg}", MOUNT_OPTIONS[keyword.arg])


def _negated(value: ast.expr, text: str) -> str:
    if isinstance(value, ast.Constant):
        return "" if not value.value else "False"
    return f"not {text}"
