"""The registry: spellings, aliases, messages, and definitions that are run again."""

import inspect

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
