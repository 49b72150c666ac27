"""Imports go one way, private modules stay inside their folder, and an import inside a function has a reason.

All sources are read with ``ast``, so that imports inside functions and under ``TYPE_CHECKING`` are seen as well, and an
attribute such as ``reign.theory`` counts as an import of that module.
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[2] / "src"

# from the lowest layer to the highest; a module may import from its own layer and from those below
LAYERS = [
    {"_version", "_pyg", "_validate", "disk", "registry", "tables"},
    {"draw", "smiles"},
    {"kernels"},
    {"bags"},
    {"policies", "transforms"},
    {"nn"},
    {"published", "interop"},
    {"testing"},
    {"data"},
    {"theory"},
    {"train"},
    {"explain"},
    {"experiments"},
    {"lightning", "sklearn"},
    {"plots"},
    {"explore"},
    {"", "_load"},  # the package itself, which loads everything else when it is first used
    {"cli"},
    {"__main__"},
]

QUICK, OPTIONAL = "to start quickly", "an optional package"
LAZY = {  # (who, what): why it is imported inside functions; both are prefixes
    ("reign.__main__", "reign.cli"): "says what to install where typer or rich is missing",
    ("reign._load", "reign.nn"): QUICK,
    ("reign._load", "reign.train"): QUICK,
    ("reign.bags._views", "reign.draw"): OPTIONAL,  # which needs matplotlib
    ("reign.cli", "reign"): QUICK,
    ("reign.kernels._switch", "triton"): OPTIONAL,
    ("reign.kernels._switch", "reign.kernels.fused"): OPTIONAL,  # which needs triton
    ("reign.data.sets", "torch_geometric.datasets"): QUICK,
    ("reign.data.sets", "ogb"): OPTIONAL,
    ("reign.data.sets", "pandas"): OPTIONAL,
    ("reign.data.sets", "reign.data.molecules"): OPTIONAL,
    ("reign.data", "sklearn"): OPTIONAL,
    ("reign.data._example", "reign.smiles"): OPTIONAL,  # which needs rdkit
    ("reign.data.molecules", "pyarrow"): OPTIONAL,
    ("reign.nn._export", "onnx"): OPTIONAL,
    ("reign.train.runs.onnx", "onnx"): OPTIONAL,
    ("reign.smiles", "rdkit"): OPTIONAL,
    ("reign.smiles", "torch"): QUICK,
    ("reign.smiles", "torch_geometric"): QUICK,
    ("reign.train", "pandas"): OPTIONAL,
    ("reign.train", "pyarrow"): OPTIONAL,
    ("reign.train", "reign.data.molecules"): OPTIONAL,
    ("reign.train", "sklearn"): QUICK,
    ("reign.train.predict.gaussian", "scipy"): QUICK,
    ("reign.train.predict.gaussian", "threadpoolctl"): QUICK,
    ("reign.train.predict.shards", "ray"): OPTIONAL,
    ("reign.train.engine.execution", "lightning"): QUICK,
    ("reign.train", "torch.utils.tensorboard"): OPTIONAL,
    ("reign.experiments", "optuna"): OPTIONAL,
    ("reign.explore", "reign.data.molecules"): OPTIONAL,
    ("reign.sklearn", "reign.data.molecules"): OPTIONAL,
    ("reign.tables", "rich"): OPTIONAL,  # for the command line
    ("reign.explore", "reign.plots.molecules"): OPTIONAL,
    ("reign.explore", "reign.train"): QUICK,
    ("reign.plots", "rdkit"): OPTIONAL,
    ("reign.plots", "sklearn"): QUICK,
    ("reign.plots", "reign.data.molecules"): OPTIONAL,
    ("reign.plots", "reign.plots.molecules"): OPTIONAL,  # which needs rdkit
}


class Import(NamedTuple):
    """Module ``who`` imports module ``what``."""

    who: str
    package: str  # the folder of ``who``
    line: int
    what: str
    lazy: bool
    for_types: bool

    def __str__(self) -> str:
        return f"{self.who}, line {self.line}: {self.what}"


def find_imports(source: Path) -> list[Import]:
    """All imports of all modules of the package ``reign`` below a folder."""
    names = {file: _module_name(file.relative_to(source)) for file in sorted(source.rglob("*.py"))}
    found = []
    for file, who in names.items():
        package = who if file.name == "__init__.py" else who.rpartition(".")[0]
        for node, what, lazy, for_types in _walk(ast.parse(file.read_text()), False, False):
            target = what
            while target.startswith("reign.") and target not in names.values():  # a name inside of a module
                target = target.rpartition(".")[0]
            found.append(Import(who, package, node.lineno, target, lazy, for_types))
    return found


def _module_name(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _walk(node: ast.AST, lazy: bool, for_types: bool) -> Iterator[tuple[ast.AST, str, bool, bool]]:
    if isinstance(node, ast.Import):
        yield from ((node, alias.name, lazy, for_types) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        yield from ((node, f"{node.module}.{alias.name}", lazy, for_types) for alias in node.names)
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "reign":
        yield node, f"reign.{node.attr}", False, for_types
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _walk(child, lazy, True)
        for child in node.orelse:
            yield from _walk(child, lazy, for_types)
    else:
        lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, lazy, for_types)


def _layer(module: str) -> int:
    part = [*module.split("."), ""][1]
    found = [level for level, names in enumerate(LAYERS) if part in names]
    assert found, f"{module} has no place in LAYERS"
    return found[0]


def _within(module: str, prefix: str) -> bool:
    return module == prefix or module.startswith(f"{prefix}.")


def upward(imports: list[Import]) -> list[str]:
    """Imports of a higher layer; types may come from there."""
    ours = [i for i in imports if _within(i.what, "reign") and not i.for_types]
    return [str(i) for i in ours if _layer(i.what) > _layer(i.who)]


def of_private_modules(imports: list[Import]) -> list[str]:
    """Imports of a module that starts with an underscore and lies neither in the same folder nor in one around it."""
    out = []
    for i in imports:
        parts = i.what.split(".")
        hidden = [n for n, part in enumerate(parts) if part.startswith("_") and not part.startswith("__")]
        if parts[0] == "reign" and hidden and not _within(i.package, ".".join(parts[: hidden[0]])):
            out.append(str(i))
    return out


def without_a_reason(imports: list[Import]) -> list[str]:
    """Imports inside functions that are not in the list."""
    lazy = [i for i in imports if i.lazy and not i.for_types]
    return [str(i) for i in lazy if not any(_within(i.who, who) and _within(i.what, what) for who, what in LAZY)]


def hidden_modules(source: Path) -> list[str]:
    """Modules whose name in their folder's ``__init__`` means something else, as a function of the same name."""
    modules = {_module_name(file.relative_to(source)) for file in source.rglob("*.py")}
    hidden = []
    for file in source.rglob("__init__.py"):
        package = _module_name(file.relative_to(source))
        names = []
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                names.append(node.name)
            elif isinstance(node, ast.ImportFrom):
                names += [a.asname or a.name for a in node.names if f"{node.module}.{a.name}" not in modules]
        hidden += [f"{package}.{name}" for name in names if f"{package}.{name}" in modules]
    return sorted(hidden)


@pytest.fixture(scope="module")
def imports() -> list[Import]:
    return find_imports(SOURCE)


def test_imports_go_one_way(imports: list[Import]) -> None:
    assert len(imports) > 400
    assert upward(imports) == []


def test_private_modules_stay_inside(imports: list[Import]) -> None:
    assert of_private_modules(imports) == []


def test_lazy_imports_have_a_reason(imports: list[Import]) -> None:
    assert without_a_reason(imports) == []


@pytest.mark.parametrize(("who", "what"), LAZY)
def test_the_list_of_lazy_imports_is_short(imports: list[Import], who: str, what: str) -> None:
    assert any(i.lazy and _within(i.who, who) and _within(i.what, what) for i in imports), "nobody needs this entry any more"


def test_every_rule_can_fail(tmp_path: Path) -> None:
    made_up = {
        "__init__.py": "from reign.theory import proof",
        "_validate.py": "import torch",
        "bags/__init__.py": "from reign.bags._bag import Bag\nfrom reign._validate import check",
        "bags/_bag.py": (
            "from typing import TYPE_CHECKING\n"
            "if TYPE_CHECKING:\n    from reign.policies import Policy\nelse:\n    from reign.nn import SUN\n"
            "def whole():\n    from reign.policies import Whole\n"
            "import reign\n"
            "def late():\n    return reign.theory.proof\n"
        ),
        "policies/__init__.py": "from reign.bags import Bag\nfrom reign.bags import _bag\nfrom reign.policies.sets._one import One",
        "policies/sets/__init__.py": "",
        "policies/sets/_one.py": "from reign.policies._base import Policy\nimport reign.bags._bag as b",
        "policies/_base.py": "class Policy:\n    def f(self):\n        import copy",
        "nn/__init__.py": "SUN = 1",
        "theory/__init__.py": "import reign.nn\nproof = reign.nn.SUN",
        "cli/__init__.py": "def command():\n    from reign.theory import proof",
    }
    for name, text in made_up.items():
        file = tmp_path / "reign" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    imports = find_imports(tmp_path)
    assert sorted(upward(imports)) == [
        "reign.bags._bag, line 10: reign.theory",
        "reign.bags._bag, line 5: reign.nn",
        "reign.bags._bag, line 7: reign.policies",
        "reign.bags._bag, line 8: reign",
    ]
    assert of_private_modules(imports) == [
        "reign.policies, line 2: reign.bags._bag",
        "reign.policies, line 3: reign.policies.sets._one",
        "reign.policies.sets._one, line 2: reign.bags._bag",
    ]
    assert without_a_reason(imports) == [
        "reign.bags._bag, line 7: reign.policies",
        "reign.policies._base, line 3: copy",
    ]
    (tmp_path / "reign" / "new.py").write_text("import reign.bags")
    with pytest.raises(AssertionError, match="reign.new has no place in LAYERS"):
        upward(find_imports(tmp_path))


def test_nothing_hides_a_module_of_the_same_name() -> None:
    assert hidden_modules(SOURCE) == []


def test_a_hidden_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "reign" / "theory").mkdir(parents=True)
    for name in ("__init__", "card", "wl", "proof", "rank"):
        (tmp_path / "reign" / "theory" / f"{name}.py").write_text("")
    text = "from reign.theory import proof\nfrom reign.theory.card import card\ndef wl(): ...\ndef order():\n    rank = 1\n"
    (tmp_path / "reign" / "theory" / "__init__.py").write_text(text)
    assert hidden_modules(tmp_path) == ["reign.theory.card", "reign.theory.wl"]


@pytest.mark.parametrize(
    "steps",
    [
        [("reign", "torch reign.bags"), ("reign.bags", "reign.policies"), ("reign.policies", "reign.nn"),
         ("reign.nn", "reign.data reign.published reign.theory reign.train")],
        [("reign.smiles", "torch torch_geometric pandas scipy")],
        [("reign.data", "reign.nn reign.theory sklearn rdkit")],
    ],
    ids=lambda steps: steps[-1][0],
)  # fmt: skip
def test_what_an_import_leaves_out(steps: list[tuple[str, str]]) -> None:
    """Modules that are imported one after the other in a process, and what none of them has loaded by then."""
    script = "import importlib, sys\n"
    script += f"for module, absent in {steps!r}:\n    importlib.import_module(module)\n"
    script += "    print(module, [name for name in absent.split() if name in sys.modules])"
    env = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env)
    assert (done.stdout.splitlines(), done.stderr[-2000:]) == ([f"{module} []" for module, _ in steps], "")
