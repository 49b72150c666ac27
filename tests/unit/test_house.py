"""The size of the source, by folder, stays within budgets, and so do cycles of imports, equal names and what exists more than once.

``python benchmarks/house.py --budgets`` prints the present numbers in the form of the two tables below. A change that makes a number smaller lowers its
budget. A feature may raise lines, and with a reason files; nothing raises a number of ``WHOLE`` but a change that a reviewer has agreed to.
"""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

FOLDERS = {  # files, lines, and lines of imports in percent; "." are the files of the package itself
    ".": (13, 1395, 7.6),
    "bags": (11, 2447, 4.2),
    "cli": (13, 2311, 8.3),
    "data": (22, 3971, 6.8),
    "draw": (3, 410, 7.3),
    "experiments": (13, 2475, 6.7),
    "explain": (2, 288, 5.6),
    "explore": (3, 432, 7.6),
    "kernels": (20, 4724, 3.9),
    "nn": (32, 6925, 6.0),
    "plots": (11, 1970, 6.1),
    "policies": (9, 1202, 6.4),
    "published": (7, 1215, 4.9),
    "sklearn": (2, 345, 8.7),
    "smiles": (8, 1087, 6.7),
    "theory": (15, 3666, 4.8),
    "train": (41, 9912, 6.3),
}

WHOLE = {
    "training steps": 1,
    "modules that name files of a run": 1,
    "renderers of tables": 1,
    "cycles of imports": 3,
    "modules in cycles": 25,
    "equal class names": 6,
    "dict[str, Any]": 56,
}


def _counts() -> Any:
    spec = spec_from_file_location("house", ROOT / "benchmarks" / "house.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = _counts()


def over(found: dict[str, Any], allowed: dict[str, Any]) -> list[str]:
    """What is larger than its budget, and what only one of the two has."""
    out = [f"{name} has no budget" for name in found.keys() - allowed.keys()]
    out += [f"{name} does not exist" for name in allowed.keys() - found.keys()]
    for name in found.keys() & allowed.keys():
        now, budget = ([value] if isinstance(value, int) else value for value in (found[name], allowed[name]))
        if any(a > b for a, b in zip(now, budget, strict=True)):
            out.append(f"{name}: {found[name]}, at most {allowed[name]}")
    return sorted(out)


def test_folders_stay_within_their_budgets() -> None:
    assert over(house.budgets(ROOT / "src"), FOLDERS) == []


def test_what_is_there_twice_becomes_less() -> None:
    assert over(house.wide_counts(ROOT / "src"), WHOLE) == []


def test_a_larger_number_is_found() -> None:
    assert over(
        {"bags": (2, 10, 5.1), "new": (1, 1, 0.0), "nn": (1, 1, 1.0)},
        {"bags": (2, 10, 5.0), "gone": (1, 1, 1.0), "nn": (1, 2, 1.0)},
    ) == [
        "bags: (2, 10, 5.1), at most (2, 10, 5.0)",
        "gone does not exist",
        "new has no budget",
    ]
    assert over({"cycles of imports": 2}, {"cycles of imports": 1}) == ["cycles of imports: 2, at most 1"]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small package in which everything that is counted occurs."""
    files = {
        "__init__.py": "",
        "a.py": (
            "from typing import TYPE_CHECKING, Any\n\nfrom reign.b import (\n    B,\n    Same,\n)\n\n"
            "if TYPE_CHECKING:\n    from reign.c import C\n\nclass Same: ...\nclass _Own: ...\n"
            'FILE = "recipe.yaml"\n\ndef step(x: dict[str, Any]) -> dict[str, Any]:\n    x.loss.backward()\n'
        ),
        "b.py": '"""Reads recipe.yaml."""\nclass B: ...\nclass Same: ...\ndef late():\n    from reign.c import C\nclass _Own: ...\n',
        "c.py": 'import reign.a\nclass C: ...\ndef write(n):\n    "result.json"\n    return f"{n}/result.json" + "|---|"\n',
        "d.py": "from rich.table import Table\ndef backward(x):\n    x.backward()\ndef training_step(x):\n    return x.loss\n",
        "kernels/__init__.py": "",
        "kernels/blocked/__init__.py": "class Stage: ...",
        "kernels/fused/__init__.py": "class Stage:\n    def run(x):\n        x.backward()\n",
    }
    for name, text in files.items():
        file = tmp_path / "reign" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_what_is_counted(tree: Path) -> None:
    source = house.Source(tree)
    assert source.cycles() == [["reign.a", "reign.b", "reign.c"]]
    assert source.equal_class_names() == {"Same": ["reign.a", "reign.b"]}
    assert source.untyped_dicts() == 2
    assert source.that_name_files() == ["reign.a", "reign.c"]
    assert source.training_steps() == ["reign.a"]
    assert source.renderers() == ["reign.c", "reign.d"]
    assert source.import_lines() == 9
    assert house.budgets(tree) == {".": (5, 32, 28.1), "kernels": (3, 4, 0.0)}
