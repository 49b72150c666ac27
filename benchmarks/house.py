"""How large the source is, and how much of it one has to read: a table of counts for one tree, or for two next to each other.

    python benchmarks/house.py [--src OLD/src] [--src NEW/src] [--quick | --list | --budgets]

Nearly all counts are made from the text with ``ast``, and nothing is imported. Their definitions:

    files, lines           of all Python files below the folder
    lines of imports       lines that an import statement takes, wherever it stands and over however many lines
    a ZINC batch           files in which a function runs between the start of ``reign train zinc/sun-ego`` and the first change of a weight, with data
                           made here; what runs while a module is imported does not count
    SUN(x, edge_index)     files in which a function runs while a SUN is made and called once
    cycles                 groups of modules that import each other in a circle, where an import is under ``TYPE_CHECKING`` or inside a function
    modules in cycles      how many modules these groups have
    equal class names      names without an underscore that two or more classes have; a class of kernels/blocked and one of kernels/fused may be namesakes
    dict[str, Any]         places where this stands in the text
    modules that name files of a run   modules with a string, other than a docstring, whose last part is one of ``FILES``
    training steps         modules in which a function computes gradients of a loss. A function with the name ``backward`` only passes them on, and
                           a hook such as Lightning's ``training_step`` only returns the loss: whoever calls it takes the gradients.
                           Kernels, explain, theory and testing have gradients of their own
    renderers of tables    modules that make a rich Table, or hold a table of HTML or Markdown as text
    duplicates             pairs that the program ``duplicates`` lists for the folder, if it is installed

``tests/unit/test_house.py`` holds budgets of these counts, and ``--budgets`` prints them as they are now.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).absolute().parents[1] / "src"
FILES = {  # of a run; model.safetensors and config.json are files of any saved model
    "recipe.yaml", "environment.json", "problem.json", "rows_left_out.csv", "summary.json", "calibration.json", "training.csv", "memory.json",
    "report.html", "predictions.csv", "splits.json", "metrics.csv", "result.json", "scale.json", "checkpoint.pt",
}  # fmt: skip
RULES = re.compile(r"<table|\|\s*:?---")  # the start of a table in HTML, or the line below the head of one in Markdown


class Source:
    """The Python files below a folder.

    Args:
        folder: a folder ``src`` that holds the package reign.
        part: a folder of the package, such as "bags", for counts of this part alone; "." for the files of the package itself.
    """

    def __init__(self, folder: Path, part: str = "") -> None:
        base = folder / "reign" / part
        self.files = sorted(base.glob("*.py") if part == "." else base.rglob("*.py"))
        self.texts = [file.read_text() for file in self.files]
        self.names = [".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__") for file in self.files]

    @property
    def trees(self) -> list[ast.Module]:
        """The syntax trees of all files."""
        return [_parsed(text) for text in self.texts]

    def lines(self) -> int:
        """Lines of all files."""
        return sum(len(text.splitlines()) for text in self.texts)

    def import_lines(self) -> int:
        """Lines that import statements take."""
        return sum(len({line for i in _of(tree, ast.Import | ast.ImportFrom) for line in _lines(i)}) for tree in self.trees)

    def import_share(self) -> float:
        """Lines of imports in percent of all lines."""
        return 100 * self.import_lines() / max(self.lines(), 1)

    def cycles(self) -> list[list[str]]:
        """Groups of modules that import each other in a circle, by imports of any kind."""
        graph: dict[str, set[str]] = defaultdict(set)
        for name, tree in zip(self.names, self.trees, strict=True):
            graph[name] |= {target for target in _imports(tree, set(self.names)) if target != name}
        return _circles(graph)

    def equal_class_names(self) -> dict[str, list[str]]:
        """Public names that several classes have, and their modules."""
        places = defaultdict(list)
        for name, tree in zip(self.names, self.trees, strict=True):
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(name)
        backend = re.compile(r"reign\.kernels\.(blocked|fused)\b")
        return {
            key: at
            for key, at in sorted(places.items())
            if len({backend.sub("reign.kernels.*", a).rpartition("*")[1] or a for a in at}) > 1
        }

    def untyped_dicts(self) -> int:
        """How often ``dict[str, Any]`` is written."""
        return sum(len(re.findall(r"\bdict\[str, ?Any\]", text)) for text in self.texts)

    def that_name_files(self) -> list[str]:
        """Modules that name a file of a run."""
        return self._with(lambda tree: any(text.rpartition("/")[2] in FILES for text in _strings(tree)))

    def training_steps(self) -> list[str]:
        """Modules that compute the gradients of a loss."""
        others = ("reign.kernels", "reign.explain", "reign.theory", "reign.testing")
        return [name for name in self._with(_is_step) if not name.startswith(others)]

    def renderers(self) -> list[str]:
        """Modules that write tables in some format."""
        return self._with(_is_renderer)

    def _with(self, holds: Callable[[ast.Module], bool]) -> list[str]:
        return [name for name, tree in zip(self.names, self.trees, strict=True) if holds(tree)]


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _of(tree: ast.AST, kind: Any) -> Iterator[Any]:
    return (node for node in ast.walk(tree) if isinstance(node, kind))


def _lines(node: Any) -> range:
    return range(node.lineno, node.end_lineno + 1)


def _imports(tree: ast.Module, modules: set[str]) -> Iterator[str]:
    """The modules, of those that are given, which a module imports."""
    for node in _of(tree, ast.Import | ast.ImportFrom):
        for alias in node.names:
            target = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            while target not in modules and "." in target:  # a name inside a module
                target = target.rpartition(".")[0]
            if target in modules:
                yield target


def _circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The sets of nodes that reach each other, those of one node left out, the largest first."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen, todo = set(graph[start]), list(graph[start])
        while todo:
            new = graph.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        reached[start] = seen
    groups = {tuple(sorted(b for b in graph if b in reached[a] and a in reached[b])) for a in graph}
    return sorted((list(group) for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _strings(tree: ast.Module) -> Iterator[str]:
    """All strings of a module but for docstrings; of an f-string its constant parts."""
    skip = {id(node.value) for node in _of(tree, ast.Expr)}
    return (node.value for node in _of(tree, ast.Constant) if isinstance(node.value, str) and id(node) not in skip)


def _is_step(tree: ast.Module) -> bool:
    for function in _of(tree, ast.FunctionDef):
        if function.name != "backward":
            called = {ast.unparse(call.func) for call in _of(function, ast.Call)}
            if any(name.endswith(".backward") or name.endswith("autograd.grad") for name in called):
                return True
    return False


def _is_renderer(tree: ast.Module) -> bool:
    rich = any(node.module == "rich.table" for node in _of(tree, ast.ImportFrom))
    return rich or any(RULES.search(text) for text in _strings(tree))


# -- what runs -----------------------------------------------------------------------------------------------------------------

# The program of a process of its own: it notes the files in which functions run, and prints their names at the end.
TRACED = """
import os, sys, threading
from pathlib import Path
base = str(Path(sys.argv[1]).absolute() / "reign") + os.sep
seen = set()
stop = lambda: False
def note(frame, event, arg):
    code = frame.f_code
    if code.co_flags & 1 and code.co_filename.startswith(base):  # a function, and not a module or the body of a class
        if stop():
            print(*sorted(seen), sep="\\n", flush=True)
            os._exit(0)
        seen.add(code.co_filename[len(base):])
def start():
    threading.settrace(note)
    sys.settrace(note)
"""

BATCH = """
import torch
weights = []
add = torch.optim.Optimizer.add_param_group
def kept(optimiser, group):  # a hook in the model would switch the fast path off
    add(optimiser, group)
    weights[:] = [(w, w.detach().clone()) for w in optimiser.param_groups[-1]["params"][-2:]]
torch.optim.Optimizer.add_param_group = kept
def stop():
    return any(not torch.equal(w, old) for w, old in weights)
from reign.__main__ import main
sys.argv = ["reign", "train", "zinc/sun-ego", "--seeds", "1", "-o", "run", "--quiet", "--no-report", "--accelerator", "cpu", "--set", "data.limit=150"]
start()
main()
"""

SUN = """
import torch
from reign.nn import SUN
x, edge_index = torch.ones(3, 2), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
start()
SUN(2, 8, 2, 1)(x, edge_index)
sys.settrace(None)
print(*sorted(seen), sep="\\n")
"""


def files_that_run(folder: Path, program: str) -> list[str]:
    """The files of a tree in which functions run while a program does."""
    with tempfile.TemporaryDirectory() as place:
        _write_zinc(Path(place) / "zinc12k.npz")
        env = os.environ | {
            "PYTHONPATH": str(folder.absolute()),
            "REIGN_DATA": place,
            "REIGN_CACHE": f"{place}/cache",
            "REIGN_REPORT": "0",
        }
        command = [sys.executable, "-W", "ignore", "-c", TRACED + program, str(folder.absolute())]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=place)
    if done.returncode or not done.stdout.strip():
        raise RuntimeError(done.stderr[-2000:])
    return done.stdout.split()


def _write_zinc(file: Path) -> None:
    """A file in the format of ZINC-12k, with as many graphs; each is a path of 16 atoms, so that a batch is of the usual size."""
    import numpy as np

    arrays: dict[str, Any] = {}
    for split, size in (("train", 10_000), ("val", 1_000), ("test", 1_000)):
        arrays[f"{split}_node_ptr"] = 16 * np.arange(size + 1)
        arrays[f"{split}_edge_ptr"] = 15 * np.arange(size + 1)
        arrays[f"{split}_edge_uv"] = np.tile(np.stack([np.arange(15), np.arange(1, 16)], axis=1), (size, 1))
        arrays[f"{split}_atom_type"] = np.arange(16 * size) % 21
        arrays[f"{split}_bond_type"] = np.arange(15 * size) % 4
        arrays[f"{split}_y"] = np.arange(size) / size
    np.savez(file, **arrays)


def duplicate_pairs(folder: Path) -> str:
    """The number of pairs that ``duplicates`` finds."""
    if shutil.which("duplicates") is None:
        return "-"
    done = subprocess.run(["duplicates", "--repo", str(folder), "--seconds", "120"], capture_output=True, text=True)
    numbers = re.findall(r"\d[\d,]*", done.stdout.splitlines()[0])
    return numbers[0] if numbers else "0"


def budgets(folder: Path) -> dict[str, tuple[int, int, float]]:
    """Files, lines and percent of imports of every folder of the package; "." are the files of the package itself."""
    parts = {part: Source(folder, part) for part in [".", *sorted(p.parent.name for p in folder.glob("reign/*/__init__.py"))]}
    return {part: (len(source.files), source.lines(), round(source.import_share(), 1)) for part, source in parts.items()}


def wide_counts(folder: Path) -> dict[str, int]:
    """Counts of a whole tree that are to become smaller and never larger."""
    source = Source(folder)
    cycles = source.cycles()
    return {
        "training steps": len(source.training_steps()),
        "modules that name files of a run": len(source.that_name_files()),
        "renderers of tables": len(source.renderers()),
        "cycles of imports": len(cycles),
        "modules in cycles": sum(map(len, cycles)),
        "equal class names": len(source.equal_class_names()),
        "dict[str, Any]": source.untyped_dicts(),
    }


def measures(folder: Path, run: bool) -> dict[str, Any]:
    """All counts of a tree."""
    source = Source(folder)
    found: dict[str, Any] = {
        "files": len(source.files),
        "lines": source.lines(),
        "lines of imports": f"{source.import_share():.1f} %",
    }
    if run:
        found["files that a ZINC batch runs"] = len(files_that_run(folder, BATCH))
        found["files that SUN(x, edge_index) runs"] = len(files_that_run(folder, SUN))
    return found | wide_counts(folder) | {"pairs of duplicates": duplicate_pairs(folder)}


def details(folder: Path) -> dict[str, Any]:
    """What the counts are of."""
    source = Source(folder)
    return {
        "cycles of imports": source.cycles(),
        "equal class names": source.equal_class_names(),
        "modules that name files of a run": source.that_name_files(),
        "training steps": source.training_steps(),
        "renderers of tables": source.renderers(),
        "a ZINC batch": files_that_run(folder, BATCH),
        "SUN(x, edge_index)": files_that_run(folder, SUN),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Counts of the source: files, imports, cycles, equal names, files that run.")
    parser.add_argument(
        "--src", type=Path, action="append", help="a folder src; this tree if not given; two are shown next to each other"
    )
    parser.add_argument("--quick", action="store_true", help="leave out what has to be run")
    parser.add_argument("--list", action="store_true", help="print what is counted, as JSON")
    parser.add_argument("--budgets", action="store_true", help="print the budgets for tests/unit/test_house.py")
    given = parser.parse_args()
    folders = given.src or [HERE]
    if given.budgets:
        for part, budget in budgets(folders[0]).items():
            print(f'    "{part}": {budget},')
        for name, count in wide_counts(folders[0]).items():
            print(f'    "{name}": {count},')
        return
    if given.list:
        print(json.dumps([details(folder) for folder in folders], indent=1))
        return
    columns = [measures(folder, not given.quick) for folder in folders]
    for name in columns[0]:
        print(f"{name:36}", *(f"{column[name]!s:>10}" for column in columns))


if __name__ == "__main__":
    main()
