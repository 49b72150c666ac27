"""Move and merge modules, and rewrite everything that names them: ``python tests/house/move.py MAP.yaml [--root TREE] [--dry]``.

The map lists new modules and the old ones that each is made of, in the order in which they should stand:

    modules:
      reign.policies._node: [reign.policies._node, reign.policies._marks, reign.policies._sizes]
      reign.bags._cache: [reign.bags._keep]
    rename:                                   # names at the top of an old module, mostly to mend clashes
      reign.policies._sizes._of: _sizes_of
    alias: [reign.train.metrics]              # old modules that stay importable, by a short module that imports the new one when it is used

A merged module has the docstring of the first old module; those of the others become comments, and their examples move into it. A module whose names
another one needs while it is imported comes before that one. Imports between merged modules disappear, equal ones and equal definitions remain once, and
``if TYPE_CHECKING`` blocks become one. The rest of the text, comments too, stays as it is.

In all files of the tree (programs, documents, mutants, settings) the dotted names and the paths of old modules become those of the new ones, imports
as ``from reign.bags import _keep`` are rewritten with all their uses, and ruff sorts imports and formats what was changed. The changelog and the files
of ``tests/house``, which name modules of a small tree of their own, stay as they are.

Nothing is written if names clash, if a name would mean something else at its new place, or if new modules would import each other in a circle. What no
program can decide is listed at the end: bare names of old modules in strings and documents, mutants whose text now stands twice, and so on.
"""

import argparse
import ast
import builtins
import inspect
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

PLACES = (
    "src",
    "tests",
    "benchmarks",
    "examples",
    "docs",
    "conftest.py",
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "pyproject.toml",
    "Makefile",
)
ENDINGS = {".py", ".md", ".toml", ".yaml", ".ipynb", ".sh", ".html", ""}
WIDTH = 120  # of a comment that begins a section
BUILTINS = set(dir(builtins)) | {"__file__", "__name__", "__doc__", "__spec__", "__path__"}


class Refusal(Exception):
    """The move would change what the code means."""


class Edit(NamedTuple):
    """Text from ``start`` to ``end`` becomes ``new``."""

    start: int
    end: int
    new: str


# -- names and scopes ----------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Scope:
    """A module, class, function or comprehension, and the names that it binds."""

    node: ast.AST
    parent: "Scope | None"
    bound: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)  # declared global or nonlocal

    def find(self, name: str) -> "Scope | None":
        """The scope whose name this is when it is read here; None for a builtin."""
        scope: Scope | None = self
        while scope is not None:
            seen = scope is self or not isinstance(scope.node, ast.ClassDef)
            if seen and name in scope.bound and name not in scope.outside:
                return scope
            scope = scope.parent
        return None


class Use(NamedTuple):
    """A name that stands at a place of the text, and the scope in which it stands."""

    name: str
    scope: Scope
    node: Any
    start: int
    end: int


class Code:
    """The text of a Python file with its tree, scopes and uses of names."""

    def __init__(self, text: str) -> None:
        self.text, self.tree = text, ast.parse(text)
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.uses: list[Use] = []
        self.imports: list[tuple[Any, Scope, list[ast.stmt], bool]] = []  # statement, scope, the block it stands in, only for types
        self.chains: list[tuple[ast.Attribute, Scope]] = []
        self.top = Scope(self.tree, None)
        for child in self.tree.body:
            self._visit(child, self.top, self.tree.body, False)

    def at(self, line: int, column: int) -> int:
        """The place of a line and a column of ``ast``, which counts bytes."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def span(self, node: Any) -> tuple[int, int]:
        """Where a node begins and ends."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def _use(self, name: str, scope: Scope, node: Any, start: int, binds: bool) -> None:
        self.uses.append(Use(name, scope, node, start, start + len(name)))
        if binds:
            home = scope
            while isinstance(home.node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) and isinstance(
                node, ast.NamedExpr
            ):
                assert home.parent is not None
                home = home.parent
            home.bound.add(name)
            if name in home.outside:
                self.top.bound.add(name)

    def _visit(self, node: ast.AST, scope: Scope, block: list[ast.stmt], types: bool) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            word = self.text.index(
                node.name, self.at(node.lineno, node.col_offset) + len("class" if isinstance(node, ast.ClassDef) else "def")
            )
            self._use(node.name, scope, node, word, True)
            outer = [*node.decorator_list]
            if isinstance(node, ast.ClassDef):
                outer += [*node.bases, *(k.value for k in node.keywords)]
            for each in outer:
                self._visit(each, scope, block, types)
            inner = Scope(node, scope)
            if not isinstance(node, ast.ClassDef):
                self._arguments(node.args, scope, inner)
                if node.returns is not None:
                    self._annotation(node.returns, scope)
            self._declared(node.body, inner)
            for child in node.body:
                self._visit(child, inner, node.body, types)
        elif isinstance(node, ast.Lambda):
            inner = Scope(node, scope)
            self._arguments(node.args, scope, inner)
            self._visit(node.body, inner, block, types)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            inner = Scope(node, scope)
            for n, part in enumerate(node.generators):
                self._visit(part.iter, inner if n else scope, block, types)
                for each in (part.target, *part.ifs):
                    self._visit(each, inner, block, types)
            for each in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
                self._visit(each, inner, block, types)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.imports.append((node, scope, block, types))
            scope.bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name):
            self._use(node.id, scope, node, self.span(node)[0], not isinstance(node.ctx, ast.Load))
        elif isinstance(node, ast.NamedExpr):
            self._use(node.target.id, scope, node, self.span(node.target)[0], True)
            self._visit(node.value, scope, block, types)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            for name in node.names:
                word = re.compile(rf"\b{name}\b").search(self.text, self.span(node)[0])
                assert word is not None
                self._use(name, scope, node, word.start(), False)
        elif isinstance(node, ast.AnnAssign):
            for each in (node.target, node.value):
                if each is not None:
                    self._visit(each, scope, block, types)
            self._annotation(node.annotation, scope)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            self._visit(node.test, scope, block, types)
            for child in node.body:
                self._visit(child, scope, node.body, True)
            for child in node.orelse:
                self._visit(child, scope, node.orelse, types)
        else:
            if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                scope.bound.add(node.name)
            if isinstance(node, ast.MatchMapping) and node.rest:
                scope.bound.add(node.rest)
            if isinstance(node, ast.Attribute):
                self.chains.append((node, scope))
            for name, value in ast.iter_fields(node):
                inside = value if name in ("body", "orelse", "finalbody") and isinstance(value, list) else block
                for child in value if isinstance(value, list) else [value]:
                    if isinstance(child, ast.AST):
                        self._visit(child, scope, inside, types)

    def _arguments(self, args: ast.arguments, outer: Scope, inner: Scope) -> None:
        for each in [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]:
            if each is not None:
                inner.bound.add(each.arg)
                if each.annotation is not None:
                    self._annotation(each.annotation, outer)
        for value in [*args.defaults, *args.kw_defaults]:
            if value is not None:
                self._visit(value, outer, [], False)

    def _annotation(self, node: ast.AST, scope: Scope) -> None:
        """The names of an annotation, also of one in quotes; what stands in quotes inside of brackets may be a shape."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            start, end = self.span(node)
            for word in re.compile(r"(?<![\w.])[A-Za-z_]\w*").finditer(self.text, start, end):
                self._use(word.group(), scope, node, word.start(), False)
        else:
            self._visit(node, scope, [], False)

    @staticmethod
    def _declared(body: list[ast.stmt], scope: Scope) -> None:
        todo: list[ast.AST] = [*body]
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Global | ast.Nonlocal):
                scope.outside |= set(node.names)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                todo += ast.iter_child_nodes(node)

    def edited(self, edits: list[Edit]) -> str:
        """The text with some changes, which may not overlap."""
        out, place = [], 0
        for edit in sorted(set(edits)):
            assert edit.start >= place, (edit, self.text[edit.start : edit.end])
            out += [self.text[place : edit.start], edit.new]
            place = edit.end
        return "".join([*out, self.text[place:]])


# -- the map -------------------------------------------------------------------------------------------------------------------


class Map:
    """Which module becomes which, and which names change.

    Args:
        given: the content of the YAML file.
        root: the tree.
    """

    def __init__(self, given: dict[str, Any], root: Path) -> None:
        if unknown := set(given) - {"modules", "rename", "alias"}:
            raise Refusal(f"a map has modules, rename and alias, got {', '.join(sorted(unknown))}.")
        self.root = root
        self.parts = {new: [olds] if isinstance(olds, str) else list(olds) for new, olds in given["modules"].items()}
        self.new = {old: new for new, olds in self.parts.items() for old in olds}
        self.alias = list(given.get("alias", []))
        self.names: dict[str, dict[str, str]] = defaultdict(dict)
        for path, name in given.get("rename", {}).items():
            module, _, old = path.rpartition(".")
            if module not in self.new:
                raise Refusal(f"rename: {module} is not moved.")
            self.names[module][old] = name
        problems = [f"{old} is listed twice" for old in self.new if sum(olds.count(old) for olds in self.parts.values()) > 1]
        problems += [f"there is no module {old}" for old in self.new if not self.file(old).is_file()]
        problems += [
            f"{new} exists, and is not among the modules that it is made of"
            for new, olds in self.parts.items()
            if self.file(new).is_file() and new not in olds
        ]
        problems += [
            f"{new} becomes {self.new[new]} and is the name of another new module; do this in two steps"
            for new in self.parts
            if self.new.get(new, new) != new
        ]
        problems += [
            f"{old} is a folder" for old in [*self.new, *self.parts] if (self.root / "src" / old.replace(".", "/")).is_dir()
        ]
        problems += [f"alias: {old} is not moved" for old in self.alias if self.new.get(old, old) == old]
        if problems:
            raise Refusal("\n".join(problems))
        moved = {old: new for old, new in self.new.items() if old != new}
        dotted = moved | {f"{old}.{a}": f"{self.new[old]}.{b}" for old, names in self.names.items() for a, b in names.items()}
        self._dotted = dotted
        self._dotted_pattern = _alternatives(dotted, r"(?<![\w.])", r"(?!\w)")
        files = {old.replace(".", "/") + ".py": new.replace(".", "/") + ".py" for old, new in moved.items()}
        inner = {a.removeprefix("reign/"): b.removeprefix("reign/") for a, b in files.items()}
        self._files = files | {a: b for a, b in inner.items() if "/" in a}
        self._files_pattern = _alternatives(self._files, r"(?<![\w./-])|(?<=src/)", r"(?!\w)")
        self._of_mutants = inner

    def file(self, module: str) -> Path:
        """Where a module stands."""
        return self.root / "src" / (module.replace(".", "/") + ".py")

    def name(self, module: str, name: str) -> str:
        """The new name of something at the top of an old module."""
        return self.names.get(module, {}).get(name, name)

    def text(self, text: str) -> str:
        """A text with the dotted names and the paths of new modules."""
        if self._dotted:
            text = self._dotted_pattern.sub(lambda m: self._dotted[m.group(1)], text)
            text = self._files_pattern.sub(lambda m: self._files[m.group(1)], text)
        return text

    def mutants(self, text: str) -> str:
        """A file of mutants with the paths of new modules."""
        return re.sub(
            r"(?m)^(  file: )(\S+)$", lambda m: m.group(1) + self._of_mutants.get(m.group(2), m.group(2)), self.text(text)
        )

    def leaves(self) -> dict[str, str]:
        """The last parts of old names that no module has any more, and the modules."""
        return {old.rpartition(".")[2]: old for old, new in self.new.items() if old.rpartition(".")[2] != new.rpartition(".")[2]}


def _alternatives(table: dict[str, str], before: str, after: str) -> re.Pattern[str]:
    longest_first = sorted(table, key=len, reverse=True)
    return re.compile(f"(?:{before})({'|'.join(map(re.escape, longest_first)) or '(?!)'}){after}")


# -- one file ------------------------------------------------------------------------------------------------------------------


def rewritten(text: str, own: str | None, plan: Map) -> str:
    """A Python file whose imports, and what they bind, are those of the new modules.

    Args:
        text: the file.
        own: the old name of the module, if it is one that is moved; imports from the module that it becomes are then removed.
        plan: the map.
    """
    code = Code(text)
    edits: list[Edit] = []
    target = plan.new.get(own) if own else None
    renames: list[tuple[Scope, str, str]] = []  # in this scope, this name becomes that
    modules: list[tuple[Scope, str, str]] = []  # in this scope, this name was the module that is now this one
    gone: dict[int, list[Any]] = defaultdict(list)
    blocks: dict[int, list[ast.stmt]] = {}
    for name, new in plan.names.get(own or "", {}).items():
        if name not in code.top.bound:
            raise Refusal(f"rename: {own} has no {name}.")
        renames.append((code.top, name, new))
    for node, scope, block, _ in code.imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in plan.new and (alias.asname or plan.new[alias.name] == target):
                    raise Refusal(f"{own or 'a file'}, line {node.lineno}: write {ast.unparse(node)!r} as 'from ... import ...'.")
            continue
        if node.level or node.module is None:
            continue
        kept: dict[str, list[str]] = defaultdict(list)
        changed = False
        for alias in node.names:
            full = f"{node.module}.{alias.name}"
            local = alias.asname or alias.name
            if node.module in plan.new:
                new = plan.name(node.module, alias.name)
                if plan.new[node.module] == target:
                    changed = True
                    if local != new:
                        renames.append((scope, local, new))
                    continue
                if new != alias.name:
                    changed = True
                    if not alias.asname:
                        renames.append((scope, local, new))
                kept[plan.new[node.module]].append(new + (f" as {alias.asname}" if alias.asname else ""))
            elif full in plan.new:
                changed = True
                folder, _, leaf = plan.new[full].rpartition(".")
                if plan.new[full] == target:
                    modules.append((scope, local, full))
                elif alias.asname or leaf == alias.name:
                    kept[folder].append(leaf + (f" as {alias.asname}" if alias.asname not in (None, leaf) else ""))
                elif _is_free(leaf, code, plan.new[full], plan):
                    kept[folder].append(leaf)
                    renames.append((scope, local, leaf))
                else:
                    kept[folder].append(f"{leaf} as {alias.name}")
                modules.append((scope, local, full))
            else:
                kept[node.module].append(alias.name + (f" as {alias.asname}" if alias.asname else ""))
        if changed:
            start, end = code.span(node)
            comments = re.findall(r"#.*", code.text[start:end])
            rows = [f"from {module} import {', '.join(dict.fromkeys(names))}" for module, names in kept.items()]
            if rows:
                rows[0] += "".join(f"  {comment}" for comment in comments)
                edits.append(Edit(start, end, ("\n" + " " * node.col_offset).join(rows)))
            else:
                gone[id(block)].append((start, end))
                blocks[id(block)] = block
    for key, spans in gone.items():
        block = blocks[key]
        left = len(block) - len(spans)
        for n, (start, end) in enumerate(spans):
            if left == 0 and n == 0 and block is not code.tree.body:
                edits.append(Edit(start, end, "pass"))
            else:
                line_end = code.text.find("\n", end)
                rest = code.text[end : line_end if line_end >= 0 else len(code.text)]
                if rest.strip() and not rest.strip().startswith("#"):
                    raise Refusal(f"{own}: two statements on one line: {code.text[start:end]}")
                first = code.text.rfind("\n", 0, start) + 1
                edits.append(Edit(first, line_end + 1 if line_end >= 0 else len(code.text), ""))
    edits += _attributes(code, modules, target, own, plan)
    taken = {edit.start for edit in edits}
    for scope, old, new in renames:
        for use in code.uses:
            if use.name == old and use.start not in taken and _meant(use, scope):
                if own is None or target is None or new != old:
                    inner = use.scope.find(new)
                    if inner is not None and inner is not scope and inner is not code.top:
                        raise Refusal(
                            f"{own or 'a file'}, line {use.node.lineno}: {old} would become {new}, which is a local name there."
                        )
                edits.append(Edit(use.start, use.end, new))
    return code.edited(edits)


def _meant(use: Use, scope: Scope) -> bool:
    if isinstance(use.node, ast.Global | ast.Nonlocal):
        return True
    return use.scope.find(use.name) is scope


def _is_free(name: str, code: Code, module: str, plan: Map) -> bool:
    """Whether nothing else in a file has the name that an imported module would get."""
    scopes = {id(use.scope): use.scope for use in code.uses}.values()
    others = {
        alias.asname or alias.name
        for node, *_ in code.imports
        for alias in node.names
        if plan.new.get(f"{getattr(node, 'module', '')}.{alias.name}") != module
    }
    bound = set().union(code.top.bound, *(scope.bound for scope in scopes))
    same = {
        alias.name
        for node, *_ in code.imports
        for alias in node.names
        if plan.new.get(f"{getattr(node, 'module', '')}.{alias.name}") == module
    }
    return name not in others and name not in bound - same and name not in BUILTINS


def _attributes(
    code: Code, modules: list[tuple[Scope, str, str]], target: str | None, own: str | None, plan: Map
) -> Iterator[Edit]:
    """Changes of ``_keep.name``, where ``_keep`` was imported: the new name, and within the module that both become the name alone."""
    inside = set()
    for node, scope in code.chains:
        if not isinstance(node.value, ast.Name):
            continue
        for home, local, full in modules:
            if node.value.id != local or scope.find(local) is not home:
                continue
            new = plan.name(full, node.attr)
            start, end = code.span(node)
            if plan.new[full] == target:
                inside.add(code.span(node.value)[0])
                other = scope.find(new)
                if other is not None and other is not code.top:
                    raise Refusal(
                        f"{own}, line {node.lineno}: {local}.{node.attr} would become {new}, which is a local name there."
                    )
                yield Edit(start, end, new)
            elif new != node.attr:
                yield Edit(end - len(node.attr), end, new)
    for use in code.uses:
        for home, local, full in modules:
            if plan.new[full] == target and use.name == local and use.start not in inside and use.scope.find(local) is home:
                raise Refusal(
                    f"{own}, line {use.node.lineno}: the module {local} is used as a value, and becomes a part of its user."
                )


# -- one new module ------------------------------------------------------------------------------------------------------------


@dataclass
class Part:
    """An old module, taken apart.

    Attributes:
        name: its old name.
        doc: the text of its docstring, with the quotes.
        imports: its import statements, with the comments above and behind them.
        types: those under ``TYPE_CHECKING``.
        body: everything else, each with the blank lines and comments above it.
        needs: old modules, of those that are merged, whose names it needs while it is imported.
        meaning: what the names at its top are: ("import", module, name) or ("here", old module, text).
    """

    name: str
    doc: str = ""
    imports: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    body: list[tuple[ast.stmt, str]] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    meaning: dict[str, tuple[str, ...]] = field(default_factory=dict)
    reads: set[str] = field(default_factory=set)  # builtins


def take_apart(name: str, plan: Map) -> Part:
    """The parts of an old module, with its names and imports as they are in the new one."""
    before = plan.file(name).read_text()
    part = Part(name)
    target = plan.new[name]
    for node, scope, _, types in Code(before).imports:
        if isinstance(node, ast.ImportFrom) and not types and not isinstance(scope.node, ast.FunctionDef):
            paths = {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
            part.needs |= {path for path in paths if plan.new.get(path) == target and path != name}
    code = Code(plan.text(rewritten(before, name, plan)))
    place = 0
    for n, node in enumerate(code.tree.body):
        start, end = _whole_lines(code, node)
        if start < place:
            raise Refusal(f"{name}, line {node.lineno}: two statements on one line.")
        text, place = code.text[place:end], end
        if n == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            part.doc = text.strip()
        elif isinstance(node, ast.Import | ast.ImportFrom):
            part.imports.append(text.strip("\n"))
            for alias in node.names:
                module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
                part.meaning[alias.asname or alias.name.split(".")[0]] = (
                    "import",
                    module,
                    alias.name if alias.asname or module else "",
                )
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            if node.orelse or not all(isinstance(each, ast.Import | ast.ImportFrom | ast.Pass) for each in node.body):
                raise Refusal(
                    f"{name}, line {node.lineno}: only imports may stand under TYPE_CHECKING, and nothing under its else."
                )
            for each in node.body:
                if isinstance(each, ast.Import | ast.ImportFrom):
                    part.types.append(ast.unparse(each))
                    for alias in each.names:
                        module = each.module or "" if isinstance(each, ast.ImportFrom) else ""
                        part.meaning[alias.asname or alias.name.split(".")[0]] = (
                            "import",
                            module,
                            alias.name if alias.asname or module else "",
                        )
        else:
            part.body.append((node, text))
    if rest := code.text[place:].strip("\n"):
        if part.body:
            part.body[-1] = (part.body[-1][0], part.body[-1][1] + "\n" + rest + "\n")
        else:
            raise Refusal(f"{name} ends with a comment, and has nothing before it.")
    for node, text in part.body:
        for bound in _bound_at_top(node):
            part.meaning[bound] = ("here", name, _plain(text) if _may_stand_once(node) else f"{name}: {text}")
    part.reads = {use.name for use in code.uses if use.scope.find(use.name) is None}
    return part


def _whole_lines(code: Code, node: Any) -> tuple[int, int]:
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
    return code.starts[first - 1], code.starts[node.end_lineno]


def _bound_at_top(node: ast.stmt) -> set[str]:
    code = Code(ast.unparse(node))
    return code.top.bound


def _may_stand_once(node: ast.stmt) -> bool:
    """Whether two equal definitions may become one: functions, and values that nobody changes."""
    if isinstance(node, ast.FunctionDef):
        return not node.decorator_list
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    calls = [ast.unparse(each.func) for each in ast.walk(node.value) if isinstance(each, ast.Call)]
    changing = any(isinstance(each, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp) for each in ast.walk(node.value))
    return set(calls) <= {"TypeVar", "torch.device"} and (not changing or isinstance(node.value, ast.Subscript))


def _plain(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if line.strip() and not line.startswith("#"))


def merged(new: str, plan: Map, notes: list[str]) -> str:
    """The text of a new module."""
    parts = [take_apart(old, plan) for old in plan.parts[new]]
    clashes = []
    for i, a in enumerate(parts):
        for b in parts[i + 1 :]:
            for name in sorted(a.meaning.keys() & b.meaning.keys()):
                one, other = a.meaning[name], b.meaning[name]
                if one != other and not (one[0] == other[0] == "here" and one[2] == other[2]):
                    clashes.append(f"{new}: {name} in {a.name} ({_in_words(one)}) and in {b.name} ({_in_words(other)})")
        for b in parts:
            for name in sorted(a.meaning.keys() & b.reads & BUILTINS if a is not b else ()):
                clashes.append(f"{new}: {name} of {a.name} is a builtin in {b.name}")
    if clashes:
        raise Refusal("\n".join(clashes))
    ordered = _in_order(parts, new)
    docs = parts[0].doc
    for part in parts[1:]:
        inner = ast.literal_eval(part.doc) if part.doc else ""
        if ">>>" in inner:
            if not docs:
                docs = part.doc
                continue
            examples = re.search(r"(?ms)^[ ]*>>>.*\Z", inner)
            assert examples is not None
            docs = f'{docs.rstrip()[:-3].rstrip()}\n\n{examples.group().rstrip()}\n"""'
    imports = list(dict.fromkeys(text for part in ordered for text in part.imports))
    runtime = {
        (m[1], m[2], name) for part in parts for name, m in part.meaning.items() if m[0] == "import" and _at_runtime(part, name)
    }
    types = []
    for text in dict.fromkeys(text for part in ordered for text in part.types):
        node: Any = ast.parse(text).body[0]
        module = getattr(node, "module", "") or ""
        node.names = [
            a for a in node.names if (module, a.name if a.asname or module else "", a.asname or a.name.split(".")[0]) not in runtime
        ]
        if node.names:
            types.append("    " + ast.unparse(node))
    out = [docs, *imports]
    if types:
        out.append("\nif TYPE_CHECKING:\n" + "\n".join(types) + "\n")
    seen: set[str] = set()
    for part in ordered:
        if part.body and part.doc and (part is not parts[0] or part is not ordered[0]):
            first, *rest = inspect.cleandoc(ast.literal_eval(part.doc)).partition(">>>")[0].strip().splitlines()
            out.append(f"\n\n# -- {first.strip().rstrip('.:')} ".ljust(WIDTH + 2, "-"))
            out += [f"# {line}".rstrip() for line in rest if line.strip() and part is not parts[0]]
            out.append("")
        for node, text in part.body:
            key = _plain(text)
            if _may_stand_once(node) and key in seen:
                continue
            seen.add(key)
            out.append(text.rstrip("\n"))
    return "\n".join(out) + "\n"


def _in_words(meaning: tuple[str, ...]) -> str:
    return f"imported from {meaning[1]}" if meaning[0] == "import" else "defined there"


def _at_runtime(part: Part, name: str) -> bool:
    return any(name in _bound_at_top(ast.parse(text).body[0]) for text in part.imports)


def _in_order(parts: list[Part], new: str) -> list[Part]:
    """The parts, each behind those that it needs, otherwise in the order of the map."""
    left, out = list(parts), []
    while left:
        ready = [part for part in left if not any(other.name in part.needs for other in left)]
        if not ready:
            raise Refusal(f"{new}: {', '.join(part.name for part in left)} need each other while they are imported.")
        out.append(ready[0])
        left.remove(ready[0])
    return out


# -- the whole tree ------------------------------------------------------------------------------------------------------------


def files_of(root: Path) -> Iterator[Path]:
    """All files that may name a module."""
    for place in PLACES:
        found = sorted((root / place).rglob("*")) if (root / place).is_dir() else [root / place]
        yield from (
            f for f in found if f.is_file() and f.suffix in ENDINGS and "__pycache__" not in f.parts and ".egg-info" not in str(f)
        )


ALIAS = '''"""Moved to ``{new}``; programs that were written for this name still find everything here."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    return getattr(import_module("{new}"), name)
'''


def plan_all(plan: Map) -> tuple[dict[Path, str | None], list[str]]:
    """The new texts of all files that change, None for those that disappear, and what a person should look at."""
    notes: list[str] = []
    out: dict[Path, str | None] = {}
    problems = []
    for new in plan.parts:
        try:
            out[plan.file(new)] = merged(new, plan, notes)
        except Refusal as refusal:
            problems.append(str(refusal))
    if problems:
        raise Refusal("\n".join(problems))
    for old, new in plan.new.items():
        if old != new and plan.file(old) not in out:
            out[plan.file(old)] = ALIAS.format(new=new) if old in plan.alias else None
    for file in files_of(plan.root):
        if file in out or file.parent == plan.root / "tests" / "house":
            continue
        before = file.read_text()
        after = before
        if file.suffix == ".py":
            after = plan.text(rewritten(before, None, plan))
        elif file.parent.name == "mutants":
            after = plan.mutants(before)
        else:
            after = plan.text(before)
        if after != before:
            out[file] = after
        notes += _left_over(file.relative_to(plan.root), after, plan)
    notes += _of_mutants(plan, out)
    for new in plan.parts:
        if not (init := plan.file(new).parent / "__init__.py").is_file() and init not in out:
            out[init] = f'"""{init.parent.name}."""\n'
            notes.append(f"{init.relative_to(plan.root)} is new; write its docstring")
    if circle := _circle(plan, out):
        raise Refusal(f"these modules would import each other: {' -> '.join(circle)}")
    return out, notes


def _left_over(file: Path, text: str, plan: Map) -> Iterator[str]:
    """Places that still name an old module by its last part alone."""
    leaves = plan.leaves()
    if not leaves:
        return
    names = "|".join(map(re.escape, sorted(leaves, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w/])(?:{names})\.py\b|[\"'](?:{names})[\"']|import [^\n\"']*\b(?:{names})\b")
    for number, line in enumerate(text.splitlines(), 1):
        if (found := pattern.search(line)) and (
            found.group()[0] != "i" or ("reign" in line and file.suffix != ".py") or "\\n" in line
        ):
            yield f"{file}:{number}: {found.group()}"


def _of_mutants(plan: Map, out: dict[Path, str | None]) -> Iterator[str]:
    """Mutants whose text no longer stands exactly once in their file."""
    for file in sorted((plan.root / "tests" / "mutants").glob("*.yaml")):
        for entry in yaml.safe_load(out.get(file) or file.read_text()):
            path = plan.root / "src" / "reign" / entry["file"]
            text = out[path] if path in out else path.read_text() if path.is_file() else None
            if path in out and text is not None and (times := text.count(entry["old"])) != 1:
                yield f"{file.name}: {entry['what']}: its text stands {times} times in {entry['file']}"


def _circle(plan: Map, out: dict[Path, str | None]) -> list[str]:
    """New modules that would need each other while they are imported, or none."""
    graph: dict[str, set[str]] = {}
    source = plan.root / "src"
    texts = {f: f.read_text() for f in source.rglob("*.py")} | out
    names = {
        ".".join(f.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): text
        for f, text in texts.items()
        if text is not None and f.suffix == ".py" and f.is_relative_to(source)
    }
    for name, text in names.items():
        graph[name] = set()
        for node, scope, _, types in Code(text).imports:
            if types or isinstance(scope.node, ast.FunctionDef):
                continue
            for alias in node.names:
                full = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
                graph[name].add(full if full in names else full.rpartition(".")[0])
    for start in plan.parts:
        paths = [[start]]
        seen = {start}
        while paths:
            path = paths.pop()
            for following in graph.get(path[-1], set()):
                if following == start and len(path) > 1:
                    return [*path, start]
                if following not in seen:
                    seen.add(following)
                    paths.append([*path, following])
    return []


def undefined(text: str) -> list[str]:
    """Names that a module reads and nobody defines; ruff does not say it, because shapes in annotations look the same."""
    code = Code(text)
    return sorted(
        {use.name for use in code.uses if use.scope.find(use.name) is None and not isinstance(use.node, ast.Constant)} - BUILTINS
    )


def main(arguments: list[str] | None = None) -> int:
    """Move."""
    parser = argparse.ArgumentParser(description="Move and merge modules, and rewrite everything that names them.")
    parser.add_argument("map", type=Path, help="a YAML file; the docstring of this program describes it")
    parser.add_argument("--root", type=Path, default=Path(__file__).absolute().parents[2], help="the tree (this one)")
    parser.add_argument("--dry", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    try:
        plan = Map(yaml.safe_load(given.map.read_text()), given.root.absolute())
        out, notes = plan_all(plan)
    except Refusal as refusal:
        print(f"nothing was changed:\n{refusal}")  # noqa: T201
        return 1
    for file in plan.parts:
        text = out[plan.file(file)]
        assert text is not None
        notes += [f"{file}: nobody defines {name}" for name in undefined(text)]
    if not given.dry:
        for file, text in out.items():
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
        for call in commands(plan, out):
            done = subprocess.run(call, cwd=plan.root, capture_output=True, text=True)
            notes += [done.stdout.strip()] if done.returncode else []
    for note in notes:
        print(note)  # noqa: T201
    print(f"{len(plan.new)} modules became {len(plan.parts)}; {len(out)} files changed, {len(notes)} places to look at.")  # noqa: T201
    return 0


def commands(plan: Map, out: dict[Path, str | None]) -> Iterator[list[str]]:
    """Calls of ruff that tidy up what was written."""
    ruff = [sys.executable, "-m", "ruff"]
    programs = [str(f) for f, text in out.items() if text is not None and f.suffix == ".py"]
    made = [str(plan.file(new)) for new in plan.parts]
    yield [*ruff, "check", "--quiet", "--fix", "--select", "I,F401,F811", *made]
    yield [*ruff, "check", "--quiet", "--fix", "--select", "I", *programs]
    yield [*ruff, "format", "--quiet", *programs]
    yield [*ruff, "check", "--quiet", "--output-format", "concise", *programs]


if __name__ == "__main__":
    sys.exit(main())
