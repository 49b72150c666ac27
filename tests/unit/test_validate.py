"""Bad input: one clear message each."""

import ctypes
import inspect
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch_geometric.data import Batch, Data

import reign
from reign import _validate as memory
from reign.policies import EgoNets, NodeMarking, Policy
from reign.testing import random_graphs

X, EDGES = torch.ones(3, 1), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
BATCH = torch.tensor([0, 0, 1])

BAD: dict[str, tuple[Callable[[], object], str]] = {
    "no features": (lambda: call(None, EDGES), "x is None, expected a tensor of node features"),
    "features as a vector": (
        lambda: call(torch.ones(3), EDGES),
        "x has shape \\(3,\\), expected \\(nodes, channels\\)",
    ),
    "no edges": (lambda: call(X, None), "edge_index is None, expected an integer tensor of shape \\(2, edges\\)"),
    "edges transposed": (lambda: call(X, EDGES.t()), "edge_index is a tensor of shape \\(4, 2\\)"),
    "edges as floats": (lambda: call(X, EDGES.float()), "edge_index has dtype torch.float32, expected torch.int64"),
    "index too large": (
        lambda: call(X, EDGES + 1),
        "edge_index holds node ids from 1 to 3, expected 0 to 2 for the 3 rows of x",
    ),
    "index negative": (lambda: call(X, EDGES - 1), "node ids from -1 to 1, expected 0 to 2"),
    "batch too short": (
        lambda: call(X, EDGES, batch=BATCH[:2]),
        "batch is a tensor of shape \\(2,\\).*expected .* \\(3,\\)",
    ),
    "batch as floats": (lambda: call(X, EDGES, batch=BATCH.float()), "batch has dtype torch.float32"),
    "batch not sorted": (lambda: call(X, EDGES, batch=BATCH.flip(0)), "batch starts at 1 and is not sorted"),
    "batch negative": (lambda: call(X, EDGES, batch=BATCH - 1), "batch starts at -1 and is sorted"),
    "edge between graphs": (lambda: call(X, EDGES, batch=BATCH), "edge 2 joins node 1 of graph 0 to node 2 of graph 1"),
    "batch_size too small": (
        lambda: NodeMarking()(X, EDGES[:, :2], batch=BATCH, batch_size=1),
        "batch_size is 1, expected a whole number of at least 2, because batch has the graph 1",
    ),
    "batch for edge_attr": (lambda: call(X, EDGES, BATCH), "edge_attr is .* for 4 edges and 3 nodes.*looks like batch"),
    "batch for edge_attr, as many nodes as edges": (
        lambda: call(torch.ones(4, 1), torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([0, 0, 1, 1])),
        "looks like batch",
    ),
    "edge_attr too short": (
        lambda: call(X, EDGES, torch.ones(3, 2)),
        "edge_attr is .* expected \\(4, channels\\); one row",
    ),
    "far too many graphs": (
        lambda: NodeMarking()(X, EDGES, batch_size=20_000_000),
        "batch or batch_size gives 20,000,000 graphs for 3 nodes, expected ids without large gaps",
    ),
    "sparse features": (
        lambda: call(X.to_sparse(), EDGES),
        "x has layout torch.sparse_coo, expected a dense tensor; use x.to_dense",
    ),
    "no values": (lambda: call(X.to("meta"), EDGES.to("meta")), "on the device 'meta' and has no values"),
    "two devices": (lambda: call(X.to("meta"), EDGES), "several devices \\(x on meta, edge_index on cpu\\)"),
}


def call(*args: object, **kwargs: object) -> object:
    """As a user calls it: without the checks of signatures that only tests have."""
    return inspect.unwrap(Policy.__call__)(NodeMarking(), *args, **kwargs)


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case: str) -> None:
    make, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        make()


def test_edge_types_are_not_taken_for_a_batch() -> None:
    edges = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 3]])
    bag = NodeMarking()(torch.ones(4, 1), edges, torch.tensor([0, 0, 1, 1]))
    assert bag.num_graphs == 1
    assert bag.graph.edge_attr is not None
    assert bag.graph.edge_attr.flatten().tolist() == [0, 0, 1, 1]


def test_validate_finds_what_is_not_finite() -> None:
    good = Batch.from_data_list(random_graphs(3, min_nodes=3, edge_prob=1.0, edge_dim=2))
    assert reign.validate(good) is None
    for name in ("x", "edge_attr"):
        bad = good.clone()
        bad[name][1, 0] = float("nan")
        with pytest.raises(ValueError, match=f"{name} holds NaN or infinity, first in row 1: \\[nan, "):
            reign.validate(bad)
    with pytest.raises(ValueError, match="edge_index holds node ids from 0 to 2"):
        reign.validate(Data(x=X[:2], edge_index=EDGES))


def test_too_many_pairs_raise_before_they_are_allocated() -> None:
    n = 20_000
    ring = torch.stack([torch.arange(n), torch.arange(n).roll(-1)])
    message = "policy 'ego:2' on 20,000 nodes makes 400,000,000 pairs .* 8.0 GB for the bag .* GB are free .* domain='members'"
    with pytest.raises(ValueError, match=message):
        EgoNets(2)(torch.ones(n, 1), ring)
    assert EgoNets(2)(torch.ones(n, 1), ring, domain="members").num_pairs == 5 * n
    with pytest.raises(ValueError, match="fewer roots"):
        NodeMarking()(torch.ones(n, 1), ring, domain="members")
    with pytest.raises(ValueError, match="AddHopDistance on 20,000 nodes"):
        reign.transforms.AddHopDistance()(Data(x=torch.ones(n, 1), edge_index=ring))


def test_free_memory_on_windows_as_far_as_it_can_be_seen_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(pointer: Any) -> None:
        assert (ctypes.sizeof(pointer._obj), pointer._obj[0]) == (64, 64)
        pointer._obj[1], pointer._obj[2] = 16 * 2**30, 5 * 2**30

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=SimpleNamespace(GlobalMemoryStatusEx=fill)), raising=False)
    assert memory.free_memory(torch.device("cpu")) == 5 * 2**30


def test_free_memory_is_asked_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.free_memory(torch.device("cpu")) > 2**20
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**12)
    memory.check_fits(10**8, torch.device("cpu"), "this", "that")
    monkeypatch.setattr(memory, "free_memory", lambda device: 10**6)
    with pytest.raises(ValueError, match="this makes 100,000,000 pairs"):
        memory.check_fits(10**8, torch.device("cpu"), "this", "that")
