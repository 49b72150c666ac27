"""Graphs end to end: a batch equals PyG's, and odd lists are refused."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch, Data

from reign.data import GraphPack, Problem
from reign.testing import random_graphs


def make(number: int = 6) -> list[Data]:
    graphs = random_graphs(number, min_nodes=1, max_nodes=6, num_features=2, edge_dim=3)
    for g, data in enumerate(graphs):
        data.y = torch.tensor([[float(g), -1.0]])
    return graphs


@pytest.mark.parametrize("ids", [[0, 1, 2, 3, 4, 5], [4, 1], [3], [2, 2, 0]])
def test_a_batch_is_pygs(ids: list[int]) -> None:
    graphs = make()
    ours, theirs = GraphPack.of(graphs).batch(ids), Batch.from_data_list([graphs[g] for g in ids])
    for name in ("x", "edge_index", "edge_attr", "batch"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name)), name
    assert torch.equal(ours.y, theirs.y.double())
    assert ours.size == len(ids)


def test_an_empty_batch() -> None:
    b = GraphPack.of(make()).batch([])
    assert (b.size, b.x.shape, b.edge_index.shape, b.y.shape) == (0, (0, 2), (2, 0), (0, 2))


@pytest.mark.parametrize("ids", [[0, 1, 2, 3, 4, 5], [4, 1], []])
def test_some_graphs_of_a_pack(ids: list[int]) -> None:
    graphs = make()
    chosen = GraphPack.of(graphs).select(torch.tensor(ids, dtype=torch.long))
    assert len(chosen) == len(ids)
    if ids:
        assert chosen.fingerprint() == GraphPack.of([graphs[g] for g in ids]).fingerprint()


def test_a_problem_without_some_graphs() -> None:
    graphs = make()
    whole = Problem.of(graphs[:3], graphs[3:5], graphs[5:])
    whole = replace(whole, names=list("abcdef"), texts={"t": list("uvwxyz")})
    some = whole.without({0, 5})
    assert {split: ids.tolist() for split, ids in some.splits.items()} == {"train": [0, 1], "val": [2, 3]}
    assert (some.names, some.texts) == (list("bcde"), {"t": list("vwxy")})
    assert some.graphs.fingerprint() == GraphPack.of(graphs[1:5]).fingerprint()


def test_sizes() -> None:
    graphs = make()
    pack = GraphPack.of(graphs)
    assert len(pack) == 6
    assert pack.sizes.tolist() == [data.num_nodes for data in graphs]


def test_moving_leaves_types_alone() -> None:
    graphs = make()
    for data in graphs:
        data.x = data.x.long()
    pack = GraphPack.of(graphs).to(dtype=torch.float64)
    assert (pack.x.dtype, pack.edge_attr.dtype, pack.edge_index.dtype) == (torch.int64, torch.float64, torch.int64)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: setattr(d, "y", None), "graph 3: y is None, but graph 0"),
        (lambda d: setattr(d, "y", torch.ones(1, 3)), "graph 3: y holds 3 targets, but graph 0 has 2"),
        (lambda d: setattr(d, "x", torch.ones(d.num_nodes, 5)), "graph 3: x is a tensor of shape"),
        (lambda d: setattr(d, "edge_attr", None), "graph 3: edge_attr is None"),
        (lambda d: setattr(d, "edge_index", torch.tensor([[0], [99]])), "graph 3: edge_"),
        (lambda d: d.x.fill_(float("nan")), "graph 3: x holds NaN"),
    ],
)
def test_what_does_not_fit_together_is_named(spoil: object, message: str) -> None:
    graphs = make()
    spoil(graphs[3])  # type: ignore[operator]
    with pytest.raises(ValueError, match=message):
        GraphPack.of(graphs)


def test_no_graphs() -> None:
    with pytest.raises(ValueError, match="there are no graphs"):
        GraphPack.of([])


def test_problems() -> None:
    graphs = make(12)
    problem = Problem.of(graphs[:6], graphs[6:9], graphs[9:], targets=["a", "b"])
    assert {split: ids.tolist() for split, ids in problem.splits.items()} == {
        "train": [0, 1, 2, 3, 4, 5],
        "val": [6, 7, 8],
        "test": [9, 10, 11],
    }
    assert problem.select(["b"]).y.squeeze(1).tolist() == [-1.0] * 12
    few = problem.limit(2).splits["val"].tolist()
    assert len(few) == 2
    assert set(few) < {6, 7, 8}
    fewer = problem.fewer(3, seed=1).splits["train"]
    assert fewer.numel() == 3
    assert set(fewer.tolist()) <= set(range(6))
    assert not torch.equal(fewer, problem.fewer(3, seed=2).splits["train"])
    with pytest.raises(ValueError, match="has no target 'c'; it has a, b"):
        problem.select(["c"])
    with pytest.raises(ValueError, match="at most the 6 training graphs"):
        problem.fewer(7, seed=0)
    with pytest.raises(ValueError, match="expected one column of y for each target"):
        Problem.of(graphs, targets=["a"])


def test_folds_are_stratified_and_cover_all() -> None:
    graphs = make(20)
    for g, data in enumerate(graphs):
        data.y = torch.tensor([[float(g % 4 == 0)]])
    problem = Problem.of(graphs, task="multiclass", classes=["no", "yes"])
    folds = problem.folds(5, seed=3)
    assert torch.cat([fold.splits["val"] for fold in folds]).sort().values.tolist() == list(range(20))
    for fold in folds:
        assert problem.y[fold.splits["val"]].sum() == 1
        assert not set(fold.splits["val"].tolist()) & set(fold.splits["train"].tolist())
    with pytest.raises(ValueError, match="folds is 6, expected at most 5, the number of different graphs of the rarest class"):
        problem.folds(6, seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "foo"}, "task is 'foo', expected 'regression' or"),
        ({"task": "multiclass"}, "expected one target and its classes"),
        ({"task": "multiclass", "classes": ["a"]}, r"y is \[0.0, 1.0, 2.0, 3.0, 4.0, 5.0\], expected whole numbers from 0 to 0"),
        ({"task": "classification"}, "expected 0, 1 or NaN"),
    ],
)
def test_labels_must_suit_the_task(options: dict[str, object], message: str) -> None:
    graphs = make()
    for data in graphs:
        data.y = data.y[:, :1]
    with pytest.raises(ValueError, match=message):
        Problem.of(graphs, **options)  # type: ignore[arg-type]


def test_fingerprints() -> None:
    one = GraphPack.of(make()).fingerprint()
    assert one == GraphPack.of(make()).fingerprint()
    other = make()
    other[2].y = other[2].y.double() + 1e-12
    assert one != GraphPack.of(other).fingerprint()
