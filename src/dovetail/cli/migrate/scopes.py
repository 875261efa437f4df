"""Names of a module: where each is bound, and what the imports of other libraries are used for."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

FOREIGN = ("fastmcp", "mcp", "mcp_types", "dovetail")
"""Packages whose names are followed; our own too, so that what was left by an earlier run is reported again."""

Binder: TypeAlias = "ast.AST | ast.alias | ast.arg"


class Binding:
    """One place where a name gets a value."""

    def __init__(self, node: Binder, value: ast.expr | None = None, qualified: str | None = None) -> None:
        self.node = node
        self.value = value
        """The expression, of an assignment."""
        self.qualified = qualified
        """The full name, of an import."""


class Scope:
    """The module, a class, or a function, with the names bound in it."""

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.names: dict[str, list[Binding]] = {}

    def bind(self, name: str, binding: Binding) -> None:
        """Note that a name is bound here."""
        self.names.setdefault(name, []).append(binding)

    def lookup(self, name: str) -> list[Binding]:
        """All bindings of a name as it is seen from here."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return []


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Names(ast.NodeVisitor):
    """The scopes of a module, and the scope and the parent of each node."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, None)
        self.imports: list[ast.Import | ast.ImportFrom] = []
        """Imports of other libraries."""
        self._scopes: dict[int, Scope] = {}
        self._parents: dict[int, ast.AST] = {}
        self._scope = self.module
        self.visit(tree)

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which a node stands."""
        return self._scopes[id(node)]

    def parent_of(self, node: ast.AST) -> ast.AST | None:
        """The node that contains a node."""
        return self._parents.get(id(node))

    def bindings(self, name: ast.Name) -> list[Binding]:
        """The bindings that a name may refer to."""
        return self.scope_of(name).lookup(name.id)

    def qualified(self, node: ast.AST | None) -> str | None:
        """The full name of what an expression refers to, if it comes from one of the followed packages."""
        if isinstance(node, ast.Name):
            found = {binding.qualified for binding in self.bindings(node)}
            return found.pop() if len(found) == 1 else None
        if isinstance(node, ast.Attribute):
            owner = self.qualified(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return None

    def visit(self, node: ast.AST) -> None:
        """Record the scope of a node, and what it binds."""
        self._scopes[id(node)] = self._scope
        for child in ast.iter_child_nodes(node):
            self._parents[id(child)] = node
        super().visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Visit the children, in a new scope if the node has one."""
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self._visit_definition(node)
        elif isinstance(node, _COMPREHENSIONS):
            self._within(node, ast.iter_child_nodes(node))
        else:
            self._bind_targets(node)
            super().generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """Bind the modules of `import a.b as c`."""
        followed = False
        for alias in node.names:
            root = alias.name.partition(".")[0]
            is_foreign = root in FOREIGN
            followed = followed or (is_foreign and root != "dovetail")
            full = alias.name if alias.asname else root
            name = alias.asname or root
            self._scope.bind(name, Binding(alias, qualified=full if is_foreign else None))
        if followed:
            self.imports.append(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Bind the names of `from a.b import c as d`."""
        root = (node.module or "").partition(".")[0]
        is_foreign = node.level == 0 and root in FOREIGN
        for alias in node.names:
            full = f"{node.module}.{alias.name}" if is_foreign else None
            self._scope.bind(alias.asname or alias.name, Binding(alias, qualified=full))
        if is_foreign and root != "dovetail":
            self.imports.append(node)

    def _visit_definition(self, node: ast.AST) -> None:
        outside: list[ast.AST] = []
        inside: list[ast.AST] = []
        if isinstance(node, ast.ClassDef):
            outside = [*node.decorator_list, *node.bases, *node.keywords]
            inside = list(node.body)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            outside = [*node.decorator_list, node.args, *([node.returns] if node.returns else [])]
            inside = list(node.body)
        elif isinstance(node, ast.Lambda):
            outside, inside = [node.args], [node.body]
        if not isinstance(node, ast.Lambda):
            self._scope.bind(getattr(node, "name", ""), Binding(node))
        for child in outside:
            self.visit(child)
        arguments = getattr(node, "args", None)
        self._within(node, inside, arguments if isinstance(arguments, ast.arguments) else None)

    def _within(
        self, node: ast.AST, children: Iterator[ast.AST] | list[ast.AST], args: ast.arguments | None = None
    ) -> None:
        self._scope = Scope(node, self._scope)
        if args is not None:
            for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
                if arg is not None:
                    self._scope.bind(arg.arg, Binding(arg))
        for child in children:
            self.visit(child)
        assert self._scope.parent is not None
        self._scope = self._scope.parent

    def _bind_targets(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind(target, node, node.value if isinstance(target, ast.Name) else None)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
            self._bind(node.target, node, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension, ast.AugAssign)):
            self._bind(node.target, node, None)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            self._bind(node.optional_vars, node, None)
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
        ):
            self._scope.bind(node.name, Binding(node))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                self._scope.names[name] = self.module.names.setdefault(name, [])

    def _bind(self, target: ast.expr, node: ast.AST, value: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self._scope.bind(target.id, Binding(node, value))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._bind(element, node, None)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, node, None)
