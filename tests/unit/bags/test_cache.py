"""What a bag keeps in memory: made once, outside of inference mode, and by each bag for itself."""

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch_geometric.data import Batch

import reign
from reign.bags import SharedGraph, SubgraphBag
from reign.bags._graph import Cached, cached
from reign.policies import whole
from reign.testing import assert_bags_equal, random_graphs


def a_bag(name: str = "ego+:2") -> SubgraphBag:
    return reign.policy(name).from_data(Batch.from_data_list(random_graphs(3, min_nodes=2, seed=1)))


@dataclass(frozen=True, eq=False)
class Counter(Cached):
    calls: list[str]

    @cached
    def value(self) -> int:
        """Counts how often it is made."""
        self.calls.append("value")
        return 7


def test_a_property_is_made_once_and_documented() -> None:
    counter = Counter([])
    assert (counter.value, counter.value, counter.calls) == (7, 7, ["value"])
    assert Counter.value.__doc__ == "Counts how often it is made."
    assert repr(counter) == "Counter(calls=['value'])"
    other = replace(counter, calls=[])
    assert (other.value, other.calls) == (7, ["value"])


def test_keys_are_kept_apart() -> None:
    thing = Cached()
    assert [thing.cache(key, lambda key=key: [key]) for key in ("a", ("a",), ("a", 1))] == [["a"], [("a",)], [("a", 1)]]
    assert thing.cache("a", lambda: ["new"]) == ["a"]
    bag = a_bag("nd")
    assert bag.wiring.root_row is not bag.transpose
    assert not isinstance(bag.wiring.transpose, torch.Tensor)  # the bag's is a tensor of rows, the wiring's a sum


@pytest.mark.parametrize(
    "ask",
    [
        lambda bag: bag.graph.in_edges.node,
        lambda bag: bag.graph.neighbours.node,
        lambda bag: bag.pair_edges.source,
        lambda bag: bag.hops(2),
        lambda bag: bag.wiring.to_sub.index,
        lambda bag: bag.wiring.rows("Ak", "kj").index,
        lambda bag: whole(bag).sub,
    ],
)
def test_what_was_first_asked_for_in_inference_mode_can_be_trained_on(ask: Callable[[SubgraphBag], torch.Tensor]) -> None:
    bag = a_bag()
    with torch.inference_mode():
        first = ask(bag)
        assert torch.zeros(1).is_inference()
    assert not first.is_inference()
    assert ask(bag) is first


def test_gradients_after_a_prediction() -> None:
    data = Batch.from_data_list(random_graphs(3, min_nodes=2))
    model = reign.nn.NGNN(3, 4, 2, 1, policy="ego:1")
    bag = model.policy.from_data(data, domain=model.domain)
    with torch.inference_mode():
        model(data.x, data.edge_index, bag=bag)
    model(data.x, data.edge_index, bag=bag).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


@pytest.mark.parametrize("again", [copy.deepcopy, lambda bag: pickle.loads(pickle.dumps(bag)), lambda bag: bag.to("cpu")])
@pytest.mark.parametrize("name", ["ego+:2", "ed", "2-nm"])
def test_bags_that_keep_something_can_be_copied_pickled_and_moved(again: Callable[[SubgraphBag], SubgraphBag], name: str) -> None:
    bag = a_bag(name)
    for value in (bag.pair_edges, bag.wiring.to_node, bag.wiring.member_rows, whole(bag)):
        assert value is not None
    other = again(bag)
    assert_bags_equal(other, bag)
    assert torch.equal(other.wiring.to_node.index, bag.wiring.to_node.index)
    assert other.wiring.to_node is not bag.wiring.to_node


def test_a_bag_with_other_fields_makes_its_own() -> None:
    bag = a_bag("null")
    before = bag.pair_edges.edge.numel()
    assert before > 0
    fewer = replace(bag, member=torch.zeros_like(bag.member))
    assert fewer.pair_edges.edge.numel() == 0
    assert bag.pair_edges.edge.numel() == before
    graph = bag.graph
    assert graph.in_edges.node.numel() > 0
    assert replace(graph, edge_index=graph.edge_index[:, :0], edge_attr=None).in_edges.node.numel() == 0
    meta = bag.to("meta")
    assert meta.pair_batch.device.type == "meta"


def test_bags_are_freed_without_the_garbage_collector() -> None:
    import gc
    import weakref

    bag = a_bag()
    assert bag.wiring.rows("Ak", "kj") is bag.wiring.rows("Ak", "kj")
    assert whole(bag) is whole(bag)
    gone = weakref.ref(bag), weakref.ref(bag.graph)
    gc.disable()
    try:
        del bag
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


def test_graphs_keep_too() -> None:
    graph = SharedGraph.build(torch.ones(3, 1), torch.tensor([[0, 1], [1, 2]]))
    assert graph.neighbours is graph.neighbours
    assert "_cache" not in repr(graph)
