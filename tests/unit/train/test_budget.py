"""Too little memory: batches are split, and nothing of a failed attempt is left."""

import pickle
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from learning import Curve, learn, model
from reign.bags import DoesNotFit
from reign.nn import SUN
from reign.train.engine import batches
from reign.train.engine.batches import Budget, GraphTooLarge

pytestmark = pytest.mark.usefixtures("signatures_unchecked")


class Small(nn.Module):
    """A model on a machine that can hold so many pairs at a time."""

    def __init__(self, net: SUN, room: int, error: type[Exception]) -> None:
        super().__init__()
        self.net, self.policy, self.room, self.error = net, net.policy, room, error
        self.largest, self.failed = 0, 0

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, batch_size: int) -> Tensor:
        pairs = int(torch.bincount(batch, minlength=batch_size).square().sum())
        out: Tensor = self.net(x, edge_index, edge_attr, batch, batch_size)
        if pairs > self.room:  # after the forward pass, when running statistics have changed
            self.failed += 1
            raise self.error("DefaultCPUAllocator: can't allocate memory: you tried to allocate 99 bytes")
        self.largest = max(self.largest, pairs)
        return out


@pytest.mark.parametrize("error", [RuntimeError, torch.OutOfMemoryError, MemoryError, DoesNotFit])
def test_batches_are_split_where_memory_is_too_small(error: type[Exception]) -> None:
    """The same weights as with the bound given from the start: nothing of the failed attempt is left."""
    notes = Curve()
    net = Small(model(), 100, error)
    learn(net, config={"batch_size": 12}, callback=notes)
    assert net.failed >= 1
    assert net.largest <= 100
    assert "From now on batches are split at" in notes.notes[0]
    bound = int(notes.notes[-1].split("split at ")[1].split(" pairs")[0].replace(",", ""))
    for one, two in zip(net.net.state_dict().values(), weights_with(bound), strict=True):
        assert torch.equal(one, two)


@cache
def weights_with(bound: int) -> list[Tensor]:
    """The weights after a training with the bound given from the start."""
    net = model()
    learn(net, config={"batch_size": 12, "max_pairs": bound})
    return list(net.state_dict().values())


def test_one_graph_that_does_not_fit_is_named() -> None:
    with pytest.raises(ValueError, match=r"there is too little memory for graph \d+ of tiny alone, which has \d+ pairs"):
        learn(Small(model(), 10, RuntimeError))


def test_one_row_that_does_not_fit_is_named() -> None:
    problem = tiny.problem()
    problem = replace(problem, names=[str(g + 1) for g in range(len(problem.graphs))])
    with pytest.raises(ValueError, match=r"there is too little memory for row \d+ of tiny alone, which has \d+ pairs"):
        learn(Small(model(), 10, RuntimeError), problem)


def test_a_graph_that_takes_very_long_is_named_in_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = tiny.problem()
    sizes, edges = problem.graphs.sizes, problem.graphs.edge_ptr.diff()
    most = int((sizes * edges).argmax())
    for limit, names, where in (
        (0, None, f"Graph {most}"),
        (0, [str(g + 1) for g in range(len(sizes))], f"Row {most + 1}"),
        (10**9, None, ""),
    ):
        monkeypatch.setattr(batches, "MANY", limit)
        notes = Curve()
        Budget(model(), problem.graphs, torch.device("cpu"), None, "tiny", notes, names)
        size = f"{int(sizes[most]) ** 2} pairs (subgraph, node), and up to {int(sizes[most] * edges[most])} messages in each layer"
        assert [note.partition(". ")[0] for note in notes.notes] == ([f"{where} of tiny has up to {size}"] if where else [])


def test_the_error_survives_pickling_and_a_longer_message() -> None:
    error = pickle.loads(pickle.dumps(GraphTooLarge("too large", 3, "why")))
    assert (str(error), error.graph, error.reason) == ("too large", 3, "why")
    assert str(type(error)("and more")) == "and more"


def test_a_guess_that_splits_batches_is_told() -> None:
    notes = Curve()
    with pytest.MonkeyPatch.context() as patch:
        size = 2 * 8 * 2 * 8 * 4 * 100  # for 100 pairs of this model
        patch.setattr("reign.train.engine.batches.free_memory", lambda device: size)
        result = learn(config={"batch_size": 12}, callback=notes)
    assert result["max_pairs"] == 100
    assert len(notes.notes) == 1
    assert "The free memory is enough for about 100 pairs" in notes.notes[0]


def test_other_errors_are_not_taken_for_memory() -> None:
    class Broken(Small):
        def forward(self, *args: Any) -> Tensor:
            raise RuntimeError("something else")

    with pytest.raises(RuntimeError, match="something else"):
        learn(Broken(model(), 10, RuntimeError))
