"""The shapes in signatures are checked while tests run, in private modules as well."""

import importlib
import inspect
import os

import pytest
import torch
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
