"""The shapes in signatures are checked while tests run, in private modules as well."""

import importlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jaxtyping
import pytest
import torch
from beartype import beartype
from jaxtyping import TypeCheckError

from reign.bags import SharedGraph, hop_table
from reign.kernels import Sum, ragged
from reign.policies import Null

pytestmark = pytest.mark.skipif("COVERAGE_RUN" in os.environ, reason="signatures are not checked while lines are counted")


@pytest.mark.parametrize(
    "name", ["reign._validate", "reign._load", "reign.bags._hops", "reign.policies._names", "reign.data._problem"]
)
def test_every_function_of_a_private_module_is_checked(name: str) -> None:
    here = [f for f in vars(importlib.import_module(name)).values() if inspect.isfunction(f) and f.__module__ == name]
    assert here
    assert all(hasattr(function, "__wrapped__") for function in here)


@pytest.fixture
def counted(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Callable[[], Any]]]:
    """The conftest whose checks are installed, and a function that makes the same function inside a function again and again."""
    conftest = request.config.pluginmanager.get_plugin(str(Path(__file__).parents[1] / "conftest.py"))
    assert conftest is not None
    before = Counter(conftest._calls)

    def make() -> Any:
        @conftest._check_first(typechecker=beartype)
        def double(n: int) -> int:
            return 2 * n

        return double

    yield conftest, make
    conftest._calls.clear()
    conftest._calls.update(before)


def test_the_first_calls_are_checked_anew_in_each_file(counted: tuple[Any, Callable[[], Any]]) -> None:
    conftest, make = counted
    for _ in range(2):  # two files
        for call in range(conftest.CHECKED_CALLS):
            with pytest.raises(TypeCheckError, match="n"):
                make()(str(call))
        assert make()("a") == "aa"
        inspect.unwrap(conftest._checked_anew)()  # what pytest runs before each file


def test_calls_without_checks_do_not_count(counted: tuple[Any, Callable[[], Any]]) -> None:
    conftest, make = counted
    made = make()
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        late = [(function := make())("a") and function for _ in range(2 * conftest.CHECKED_CALLS)][-1]
        assert made("a") == "aa"
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)
    for function in (made, late, make()):
        with pytest.raises(TypeCheckError, match="n"):
            function("a")


def test_wrong_shapes_and_types_are_caught() -> None:
    graph = SharedGraph.build(torch.ones(3, 1), torch.tensor([[0, 1], [1, 2]]))
    with pytest.raises(TypeCheckError, match="source"):
        hop_table(graph, torch.ones(2))
    with pytest.raises(TypeCheckError, match="count"):
        ragged.offsets(torch.ones(2, 2, dtype=torch.long))
    with pytest.raises(TypeCheckError, match="x"):
        Sum.broadcast(torch.tensor([0, 1]), 2)(torch.ones(2))
    with pytest.raises(TypeCheckError, match="hop_distance"):
        Null()(torch.ones(3, 1), graph.edge_index, hop_distance=torch.ones(9))
