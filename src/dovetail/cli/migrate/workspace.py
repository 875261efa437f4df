"""Shared state of the rewriting of one module: its source, names and notes, and which servers and contexts it has."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from .edits import Arguments, Source
from .scopes import Binding, Names
from .vocabulary import CONTEXT_CLASSES, LOW_LEVEL_CLASSES, NEW_SERVER_CLASSES, SERVER_CLASSES, counterpart

Kind: TypeAlias = Literal["server", "low-level", "context", "our server", "our context"]
"""Objects of other libraries; and ours, of which only what does not exist is reported."""


class Note(NamedTuple):
    """Something that is left to be done by hand, or that behaves differently."""

    line: int
    reason: str
    advice: str


class Workspace:
    """One module while it is rewritten."""

    def __init__(self, text: str, servers: Collection[str] = ()) -> None:
        """Parse a module; `servers` are names that it imports from its project, and that are servers there."""
        self.source = Source(text)
        self.names = Names(self.source.tree)
        self._nodes = list(ast.walk(self.source.tree))
        self.used = {node.id for node in self._nodes if isinstance(node, ast.Name)}
        """All names that occur in expressions."""
        self.notes: list[Note] = []
        self.imported: dict[str, str] = {}
        """Names to import from `dovetail`, with the names that they have in the module."""
        self.modules: set[str] = set()
        """Modules of the standard library to import."""
        self.understood: set[int] = set()
        """Ids of the expressions of other libraries that need nothing more."""
        self._servers = frozenset(servers)
        self._attributes = self._server_attributes()

    def note(self, node: ast.AST, reason: str, advice: str) -> None:
        """Report something at a node."""
        note = Note(getattr(node, "lineno", 1), reason, advice)
        if note not in self.notes:
            self.notes.append(note)

    def walk(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """All nodes of some kinds, in the order of the source."""
        return (node for node in self._nodes if isinstance(node, kinds))

    def calls(self) -> Iterator[ast.Call]:
        """All calls."""
        return (node for node in self._nodes if isinstance(node, ast.Call))

    def arguments(self, call: ast.Call) -> Arguments:
        """The arguments of a call, to edit them."""
        return Arguments(self.source, call)

    def use(self, name: str) -> str:
        """Import a name from `dovetail`, and return what it is called in the module."""
        if name not in self.imported:
            self.imported[name] = name if self._is_free(name) else f"Dovetail{name}"
        return self.imported[name]

    def kind_of(self, node: ast.AST | None) -> Kind | None:
        """The kind of object that an expression is, if it is known."""
        if isinstance(node, ast.Name):
            if node.id == "self" and (kind := self._kind_of_self(node)):
                return kind
            kinds: set[Kind | None] = {self._kind_of_binding(binding, node.id) for binding in self.names.bindings(node)}
            return kinds.pop() if len(kinds) == 1 else None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._attributes.get(node.attr)
        if isinstance(node, ast.Attribute) and node.attr in ("fastmcp", "mcp_server", "server"):
            return "server" if self.kind_of(node.value) == "context" else None
        if isinstance(node, ast.Call):
            return self.kind_of_class(node.func) or self._kind_of_result(node)
        return None

    def kind_of_class(self, node: ast.AST | None) -> Kind | None:
        """The kind of the instances of a class, which may be a subclass in this module."""
        qualified = self.names.qualified(node)
        if qualified is not None:
            return _kind_of_name(qualified)
        if isinstance(node, ast.Name):
            for binding in self.names.bindings(node):
                if isinstance(binding.node, ast.ClassDef):
                    return _first(map(self.kind_of_class, binding.node.bases))
        return None

    def kind_of_annotation(self, node: ast.expr | None) -> Kind | None:
        """The kind that a type hint names: `Context`, `Context[…]`, `Context | None`, or in quotes."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            bindings = self.names.module.lookup(node.value)
            found = {binding.qualified for binding in bindings}
            qualified = found.pop() if len(found) == 1 else None
            return None if qualified is None else _kind_of_name(qualified)
        if isinstance(node, ast.Subscript):
            inner = node.slice if isinstance(node.value, ast.Name) and node.value.id == "Optional" else node.value
            return self.kind_of_annotation(inner)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self.kind_of_annotation(node.left) or self.kind_of_annotation(node.right)
        return self.kind_of_class(node)

    def module_servers(self) -> set[str]:
        """The names of the module that are servers, or functions that return one, for modules that import them."""
        return {
            name
            for name, bindings in self.names.module.names.items()
            if {self._kind_of_binding(binding, name) or self._kind_of_function(binding) for binding in bindings}
            == {"server"}
        }

    def is_unused(self, name: str) -> bool:
        """True if no name at the level of the module is called so."""
        return name not in self.names.module.names

    def _is_free(self, name: str) -> bool:
        """True if the module does not use a name for something else."""
        for node in self._nodes:
            if isinstance(node, ast.Name) and node.id == name:
                bindings = self.names.bindings(node)
                if not bindings or not all(_means(binding, name) for binding in bindings):
                    return False
        return all(_means(binding, name) for binding in self.names.module.names.get(name, []))

    def _kind_of_binding(self, binding: Binding, name: str) -> Kind | None:
        node = binding.node
        if isinstance(node, ast.arg):
            return self.kind_of_annotation(node.annotation)
        if isinstance(node, ast.AnnAssign) and (kind := self.kind_of_annotation(node.annotation)):
            return kind
        if isinstance(node, ast.alias) and binding.qualified is None:
            return "server" if name in self._servers else None
        return self.kind_of(binding.value) if isinstance(binding.value, ast.Call) else None

    def _kind_of_result(self, call: ast.Call) -> Kind | None:
        """The kind of what a function of this module returns, by its type hint."""
        if not isinstance(call.func, ast.Name):
            return None
        for binding in self.names.bindings(call.func):
            if (kind := self._kind_of_function(binding)) is not None:
                return kind
        return "server" if call.func.id in self._servers else None

    def _kind_of_function(self, binding: Binding) -> Kind | None:
        return self.kind_of_annotation(binding.node.returns) if isinstance(binding.node, ast.FunctionDef) else None

    def _kind_of_self(self, node: ast.Name) -> Kind | None:
        scope = self.names.scope_of(node)
        while scope.parent is not None:
            if isinstance(scope.node, ast.ClassDef):
                return _first(map(self.kind_of_class, scope.node.bases))
            scope = scope.parent
        return None

    def _server_attributes(self) -> dict[str, Kind | None]:
        """Attributes of `self` that always hold a server."""
        found: dict[str, Kind | None] = {}
        for node in self._nodes:
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            for target in targets:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == "self"
                ):
                    value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
                    kind = self.kind_of_class(value.func) if isinstance(value, ast.Call) else None
                    found[target.attr] = kind if found.get(target.attr, kind) == kind else None
        return found


def _means(binding: Binding, name: str) -> bool:
    """True if a binding is an import of what is called so in `dovetail`."""
    qualified = binding.qualified
    return qualified is not None and (qualified == f"dovetail.{name}" or counterpart(qualified) == name)


def _first(kinds: Iterable[Kind | None]) -> Kind | None:
    return next((kind for kind in kinds if kind is not None), None)


def _kind_of_name(qualified: str) -> Kind | None:
    if qualified == "dovetail.Server":
        return "our server"
    if qualified == "dovetail.Context":
        return "our context"
    if SERVER_CLASSES.match(qualified) or NEW_SERVER_CLASSES.match(qualified):
        return "server"
    if LOW_LEVEL_CLASSES.match(qualified):
        return "low-level"
    return "context" if CONTEXT_CLASSES.match(qualified) else None
