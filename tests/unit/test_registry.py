"""The registry: spellings, aliases, messages, and definitions that are run again."""

import inspect
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from reign.registry import Registry, plain


def shapes() -> Registry[object]:
    registry: Registry[object] = Registry("shape", hint="; or any polygon")
    registry.register("round-circle", "disc")("a circle")
    registry.register("square")("a square")
    return registry


def test_usual_spellings_are_one() -> None:
    assert [shapes()[name] for name in ("round-circle", "Round_Circle", " roundcircle ", "DISC")] == ["a circle"] * 4
    assert plain("GNN-AK ctx") == "gnnakctx"


def test_it_is_a_dictionary_in_the_order_of_registration() -> None:
    registry = shapes()
    assert registry.names() == list(registry) == ["round-circle", "square"]
    assert registry.items() == [("round-circle", "a circle"), ("square", "a square")]
    assert len(registry) == 2
    assert "Disc" in registry
    assert "line" not in registry
    assert 3 not in registry
    assert registry.name_of("a circle") == "round-circle"
    assert registry.name_of("a line") is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sqare", "^unknown shape 'sqare'; did you mean 'square'\\? Known: round-circle, square; or any polygon\\.$"),
        ("dsc", "^unknown shape 'dsc'; did you mean 'round-circle'\\?"),
        ("xyz", "^unknown shape 'xyz'\\. Known: round-circle, square; or any polygon\\.$"),
        (3, "^unknown shape 3\\. Known"),
    ],
)
def test_unknown_names(name: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        inspect.unwrap(Registry.__getitem__)(shapes(), name)


def test_a_name_is_taken_once() -> None:
    registry = shapes()
    with pytest.raises(ValueError, match="shape 'Square' is already registered as 'a square'; choose another name."):
        registry.register("Square")("another")
    with pytest.raises(ValueError, match="shape 'disc' is already registered"):
        registry.register("plate", "disc")("a plate")
    assert "plate" not in registry
    registry.register("square")("a square")
    assert len(registry) == 2


def test_a_notebook_cell_can_be_run_again() -> None:
    registry: Registry[type] = Registry("shape")

    def cell() -> type:
        @registry.register("line")
        class Line: ...

        return Line

    first, second = cell(), cell()
    assert first is not second
    assert registry["line"] is second


def test_names_that_cannot_be() -> None:
    registry: Registry[object] = Registry("shape", spelling=str.lower, pattern="[a-z]+")
    with pytest.raises(ValueError, match="'my shape' cannot be the name of a shape, expected a name that matches \\[a-z\\]\\+"):
        registry.register("my shape")("x")
    with pytest.raises(ValueError, match="'--' cannot be the name of a shape, expected a text with letters or digits"):
        shapes().register("--")("x")
    with pytest.raises(ValueError, match="None cannot be the name of a shape"):
        shapes().register()("x")


def test_an_entry_may_bring_its_name() -> None:
    registry: Registry[type] = Registry("shape")

    @registry.register()
    class Line:
        name = "line"

    assert registry.items() == [("line", Line)]


def test_entries_of_a_module_that_is_imported_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry: Registry[object] = Registry("shape")
    registry.register("square")("a square")
    registry.later("round_shapes", "circle", "oval")
    registry.register("line")("a line")
    (tmp_path / "round_shapes.py").write_text(
        "from shapes_of_this_test import registry\nregistry.register('oval')('an oval')\n"
        "@registry.register('circle', 'disc')\nclass Circle: ...\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "shapes_of_this_test", SimpleNamespace(registry=registry))
    assert registry.names() == ["square", "circle", "oval", "line"]
    assert registry["line"] == "a line"
    assert "round_shapes" not in sys.modules
    assert "disc" in registry
    assert registry.names() == ["square", "circle", "oval", "line"]
    assert registry["oval"] == "an oval"
    assert all(entry is not None for _, entry in registry.items())
    del sys.modules["round_shapes"]


@pytest.mark.parametrize("own", ["circle", "Circle"])
def test_a_name_for_later_is_taken(own: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry: Registry[object] = Registry("shape")
    registry.later("more_round_shapes", "circle")
    (tmp_path / "more_round_shapes.py").write_text(
        "from shapes_of_this_test import registry\nregistry.register('circle')('a circle')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "shapes_of_this_test", SimpleNamespace(registry=registry))
    with pytest.raises(ValueError, match="is already registered as 'a circle'; choose another name"):
        registry.register(own)("another circle")
    del sys.modules["more_round_shapes"]


def test_peers_as_published_are_imported_when_they_are_used() -> None:
    script = (
        "import sys, reign.nn\n"
        "assert 'sswlpublished' in reign.nn.list_models()\n"
        "reign.nn.SUN(3, 4, 1, 1)\n"
        "assert 'reign.published' not in sys.modules\n"
        "assert reign.nn.models.SSWLPublished is reign.nn.SSWLPublished is reign.nn.find_model('SSWL+ (published)')\n"
        "assert not hasattr(reign.nn, 'NixPublished') and not hasattr(reign.nn.models, 'NixPublished')\n"
        "assert all(hasattr(reign.nn, name) for name in reign.nn.__all__)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
