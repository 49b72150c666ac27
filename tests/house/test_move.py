"""The mover, on a small tree in which everything occurs that it has to mind."""

import subprocess
import sys
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

HERE = Path(__file__).parent
FILES = {
    "src/reign/__init__.py": "",
    "src/reign/sacks/__init__.py": "from reign.sacks._keep import Keeper\nfrom reign.sacks._place import place\n\n__all__ = ['Keeper', 'place']\n",
    "src/reign/sacks/_keep.py": (
        '"""The cache.\n\n>>> from reign.sacks._keep import size\n>>> size([1, 2])\n2\n"""\n\nfrom math import pi\n\nLIMIT = 3\n\n\ndef _own(x):\n'
        "    # a comment\n    return size(x)  # behind\n\n\ndef size(x):\n    return len(x)\n\n\nclass Keeper:\n    size = LIMIT\n\n    def get(self, x=1):\n        return x + pi\n"
    ),
    "src/reign/sacks/_place.py": (
        '"""Places of nodes.\n\nTwo lines.\n"""\n\nimport os\nfrom math import pi\nfrom typing import TYPE_CHECKING\n\n'
        "from reign.sacks import _keep\nfrom reign.sacks._keep import size as length\n\n"
        "if TYPE_CHECKING:\n    from reign.sacks._keep import Keeper\n    from reign.sacks._user import User\n\nLIMIT = 3\n\n\ndef _own(x):\n    return x\n\n\n"
        'def place(keeper: "Keeper", user: "User", x=_keep.LIMIT):\n    from reign.sacks._keep import Keeper as K\n\n'
        "    many = length([x])\n    return _own(many), K, pi, os.sep, _keep.Keeper\n"
    ),
    "src/reign/sacks/_user.py": (
        "from reign.sacks import _keep, _place\n\n\nclass User:\n    def call(self, _place_=None):\n        return _keep.size([1]), _place._own(2), [_keep for _keep in [1]]\n"
    ),
    "tests/test_it.py": (
        "import reign.sacks._place\nfrom reign.sacks import _keep as cache, _user\nfrom reign.sacks._place import _own\n\n\n"
        'def test_it(monkeypatch):\n    monkeypatch.setattr("reign.sacks._place._own", lambda x: 7)\n'
        "    assert reign.sacks._place.place(None, None)[0] == 7\n    assert _own(1) == 1\n    assert cache.size([]) == 0\n"
        '    assert "_place" not in "src/reign/sacks/_place.py"\n'
    ),
    "tests/mutants/sacks.yaml": "- what: a\n  file: sacks/_place.py\n  old: 'return x'\n  new: 'return 1'\n  fails: tests/test_it.py::test_it\n",
    "docs/page.md": "See `reign.sacks._keep.Keeper` in `sacks/_keep.py`, and `_place.py`.\n",
    "tests/house/example.py": "OLD = 'reign.sacks._keep'\n",
    "pyproject.toml": "[tool.ruff]\nline-length = 132\n",
}
MERGE: dict[str, Any] = {"modules": {"reign.sacks.cache": ["reign.sacks._place", "reign.sacks._keep"]}}
RENAMED = MERGE | {"rename": {"reign.sacks._place._own": "_itself"}}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def move(tree: Path, plan: dict[str, Any]) -> tuple[int, str]:
    (tree / "map.yaml").write_text(yaml.safe_dump(plan))
    spec = spec_from_file_location("move", HERE / "move.py")
    assert spec is not None
    assert spec.loader is not None
    program = module_from_spec(spec)
    sys.modules["move"] = program  # for its dataclasses
    spec.loader.exec_module(program)
    said = StringIO()
    with redirect_stdout(said):
        code = program.main([str(tree / "map.yaml"), "--root", str(tree)])
    return code, said.getvalue()


def test_modules_become_one(tree: Path) -> None:
    code, said = move(tree, RENAMED)
    assert code == 0, said
    text = (tree / "src/reign/sacks/cache.py").read_text()
    assert text.startswith(
        '"""Places of nodes.\n\nTwo lines.\n\n>>> from reign.sacks.cache import size\n>>> size([1, 2])\n2\n"""\n\nimport os\n'
    )
    assert (
        text.count("from math import pi")
        == text.count("LIMIT = 3")
        == text.count("    # a comment\n    return size(x)  # behind\n")
        == 1
    )
    assert "    from reign.sacks._user import User\n" in text
    assert "import Keeper" not in text
    assert (
        text.index("# -- The cache ---")
        < text.index("class Keeper")
        < text.index("# -- Places of nodes ---")
        < text.index("def _itself")
    )
    assert 'def place(keeper: "Keeper", user: "User", x=LIMIT):\n' in text
    assert "return _itself(many), Keeper, pi, os.sep, Keeper" in text
    assert not (tree / "src/reign/sacks/_keep.py").exists()
    assert (tree / "src/reign/sacks/__init__.py").read_text().startswith("from reign.sacks.cache import Keeper, place\n")
    user = (tree / "src/reign/sacks/_user.py").read_text()
    assert (tree / "tests/house/example.py").read_text() == FILES["tests/house/example.py"]
    assert "cache.size([1]), cache._itself(2), [_keep for _keep in [1]]" in user
    test = (tree / "tests/test_it.py").read_text()
    assert "import reign.sacks.cache\n" in test
    assert "from reign.sacks.cache import _itself\n" in test
    assert 'setattr("reign.sacks.cache._itself", ' in test
    assert "assert _itself(1) == 1" in test
    assert "file: sacks/cache.py" in (tree / "tests/mutants/sacks.yaml").read_text()
    assert (tree / "docs/page.md").read_text() == "See `reign.sacks.cache.Keeper` in `sacks/cache.py`, and `_place.py`.\n"
    for place in (
        'tests/test_it.py:11: "_place"',
        "docs/page.md:1: _place.py",
        "sacks.yaml: a: its text stands 2 times in sacks/cache.py",
    ):
        assert place in said, said
    assert "from reign.sacks import _user, cache\n" in test
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--doctest-modules", "-p", "no:cacheprovider", "tests/test_it.py", "src/reign/sacks/cache.py"],
        cwd=tree, capture_output=True, text=True, env={"PYTHONPATH": str(tree / "src"), "PATH": ""},
    )  # fmt: skip
    assert "2 passed" in done.stdout, done.stdout


def test_an_alias_stays_where_it_is_asked_for(tree: Path) -> None:
    code, said = move(tree, {"modules": {"reign.cache.keep": "reign.sacks._keep"}, "alias": ["reign.sacks._keep"]})
    assert code == 0, said
    assert "src/reign/cache/__init__.py is new" in said
    script = "import reign.sacks._keep, sys; assert 'reign.cache' not in sys.modules; print(reign.sacks._keep.LIMIT)"
    (tree / "src/reign/sacks/__init__.py").write_text("")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={"PYTHONPATH": str(tree / "src")})
    assert (done.stdout, done.stderr) == ("3\n", "")


@pytest.mark.parametrize(
    ("plan", "files", "message"),
    [
        (MERGE, {}, "_own in reign.sacks._place (defined there) and in reign.sacks._keep (defined there)"),
        (RENAMED, {"_keep.py": "def len(x): ...\n", "_place.py": "def f(x): return len(x)\ndef _own(): ...\n"}, "len of reign.sacks._keep is a builtin"),
        (RENAMED, {"_keep.py": "import math as os\n"}, "os in reign.sacks._place (imported from ) and in reign.sacks._keep"),
        (MERGE, {"_keep.py": "x = 1\n", "_place.py": "from reign.sacks import _keep\ndef f(x): return _keep.x + x\n"}, "_keep.x would become x, which is a local"),
        (MERGE, {"_keep.py": "x = 1\n", "_place.py": "from reign.sacks import _keep\ny = [_keep]\n"}, "the module _keep is used as a value"),
        (MERGE, {"_keep.py": "x = 1\n", "_place.py": "import reign.sacks._keep as k\n"}, "as 'from ... import ...'"),
        (RENAMED, {"_user.py": "import reign.sacks._place\n", "_keep.py": "import reign.sacks._user\n"}, "would import each other: reign.sacks.cache -> reign.sacks._user"),
        ({"modules": {"reign.sacks._user": "reign.sacks._keep"}}, {}, "reign.sacks._user exists"),
        ({"modules": {"reign.sacks._new": "reign.sacks._old"}}, {}, "there is no module reign.sacks._old"),
        ({"modules": {"reign.sacks.a": "reign.sacks._keep"}, "rename": {"reign.sacks._keep.no": "yes"}}, {}, "reign.sacks._keep has no no"),
        ({"modules": {"reign.sacks._keep": "reign.sacks._user", "reign.sacks.a": "reign.sacks._keep"}}, {}, "do this in two steps"),
    ],
)  # fmt: skip
def test_what_is_refused(tree: Path, plan: dict[str, Any], files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tree / "src/reign/sacks" / name).write_text(text)
    before = {file: file.read_text() for file in tree.rglob("*.*") if file.is_file() and file.name != "map.yaml"}
    code, said = move(tree, plan)
    assert (code, "nothing was changed" in said) == (1, True), said
    assert message in said
    assert {file: file.read_text() for file in before} == before
