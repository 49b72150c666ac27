"""The comparison of two trees sees a layer that falls back, a kernel that is launched otherwise, and any other line that differs."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signatures_unchecked: None) -> Any:
    spec = spec_from_file_location("compare", Path(__file__).parent / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.chdir(tmp_path)
    return module


def test_a_layer_that_falls_back(compare: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = compare.probe_rows(["zinc/gin-plain"])
    assert before == {"zinc/gin-plain": {"captured": "yes", "layers": [f"layers.{n}: blocked 16" for n in range(6)]}}
    monkeypatch.setattr("reign.nn._plan.plan_for", lambda *_: "a test")
    lines = compare.differences(before, compare.probe_rows(["zinc/gin-plain"]))
    assert [line for line in lines if "layers.3" in line] == ['  - "layers.3: blocked 16",', '  + "layers.3: plain",']


def test_launches_are_written_down(compare: Any) -> None:
    notes = compare.ask(SOURCE, "launches", ["zinc/ppgn"])["zinc/ppgn"]
    assert notes["layers"][0] == "layers.0: fused 8"
    assert any(" x _product(" in line for line in notes["launches"])


def test_differences(compare: Any) -> None:
    assert compare.differences({"a": "1\n2\n3", "b": [1]}, {"a": "1\n2\n3", "b": [1]}) == []
    assert compare.differences({"a": "1\n2\n3"}, {"a": "1\n4\n3"}) == ["a", "  -2", "  +4"]
    runs = {"run": {f"weight {n}": "0" for n in range(5)}}, {"run": {f"weight {n}": "1" for n in range(5)}}
    assert compare.differences(*runs, most=2)[2:4] + compare.differences(*runs, most=2)[-1:] == [
        "  +1",
        "run: weight 1",
        "run: 3 more",
    ]
    assert compare.differences({}, {"a": "1"}) == ["a", "  -null", "  +1"]
    assert compare.differences({"a": "1\n2\n3"}, {"a": ""}, most=1) == ["a", "  -1", "  ... 2 more lines"]


@pytest.mark.parametrize("same", [True, False])
def test_it_ends_with_1_if_something_differs(compare: Any, same: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([{"reign": "help"}, {"reign": "help" if same else "other"}])
    monkeypatch.setattr(compare, "ask", lambda *_: next(answers))
    monkeypatch.setattr(sys, "argv", ["compare.py", "old", "new", "--only", "help"])
    assert compare.main() == (0 if same else 1)
