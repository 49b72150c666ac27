"""The bags of a whole data set: a batch put together from them, in a frame or exactly, is the bag that the policy makes of it."""

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import reign
from reign.bags import Assembly, BagStore, Frame, SubgraphBag, _store, all_real, maps_of
from reign.bags._kernel import kernel_pairs
from reign.bags._store import all_columns
from reign.data import GraphPack
from reign.nn import Model
from reign.policies import whole
from reign.testing import random_graphs

MODELS = [
    ("sun", {"policy": "ego+:2"}),
    ("sun", {"policy": "nm", "transpose": True}),
    ("dss", {"policy": "ed"}),
    ("sswl", {}),
    ("ngnn", {"policy": "ego:1"}),
    ("gnnakplus", {"policy": "ego+:2"}),
    ("idgnn", {}),
    ("reign2", {"policy": "ego:1"}),
    (
        "subgraphgnn",
        {"policy": "ego:1", "terms": ["own", "readout@Vk", "needle@Ai", "swap_local@Ai"], "root_terms": ["swap_local@Ai"]},
    ),
    ("subgraphgnn", {"policy": "ego:2", "terms": ["own", "readout@Vk", "swap_local@Ai"], "domain": "members"}),
    ("gnnakctx", {"policy": "ego+single:2"}),
    ("ign2", {}),
    ("mpnn", {}),
    ("sswlpublished", {}),
    ("ngnnpublished", {"policy": "ego:2"}),
    ("gnnakpluspublished", {"policy": "ego:2"}),
    ("idgnnpublished", {"kind": "gcn"}),
    ("ign2published", {}),
    ("localfolklore", {"policy": "ego:2", "domain": "members"}),
    ("ppgnrrwp", {"walk_length": 3}),
    ("ppgnrrwp", {"products": "blocks", "encodings": {"pairs": ["rrwp:3"], "roots": True}}),
    ("ppgn", {}),
    ("ppgnpublished", {}),
    ("ppgnnodespublished", {}),
    ("ppgnpublished", {"suffix": "new"}),
    ("sun", {"policy": "ego+:2", "encodings": {"pairs": ["rrwp:3", "common"], "nodes": ["return:2"]}}),
]


def pack(number: int = 9) -> GraphPack:
    graphs = random_graphs(number, min_nodes=1, max_nodes=6, edge_prob=0.4)
    return GraphPack.of([Data(x=g.x, edge_index=g.edge_index, y=torch.zeros(1, 1)) for g in graphs])


def bag_of(model: Model, graphs: GraphPack, ids: torch.Tensor) -> SubgraphBag:
    b = graphs.batch(ids)
    bag = all_real(model.policy(b.x, b.edge_index, None, b.batch, batch_size=b.size, domain=model.domain))
    model.prepare(b.x, bag)
    return bag


def filled(model: Model, graphs: GraphPack, ids: torch.Tensor) -> Frame:
    store = BagStore([bag_of(model, graphs, torch.arange(0, 4)), bag_of(model, graphs, torch.arange(4, len(graphs)))])
    frame = store.frame(ids.numel() + 2, store.totals(ids) + 3)
    for chosen in (torch.arange(1), ids):  # what was there before leaves no trace
        frame.ids.fill_(store.num_graphs)
        frame.ids[: chosen.numel()] = chosen
        frame.fill()
    return frame


@pytest.mark.parametrize(("name", "options"), MODELS)
def test_a_frame_holds_the_bag_of_its_graphs(name: str, options: dict[str, object]) -> None:
    torch.manual_seed(0)
    model, graphs, ids = reign.build_model(name, 3, 4, 2, 1, **options).eval(), pack(), torch.tensor([7, 0, 3, 4])
    expected, frame = bag_of(model, graphs, ids), filled(model, graphs, ids)
    have = {column: value for column, value, _ in all_columns(frame.bag)}
    compared = 0
    for column, value, about in all_columns(expected):
        if about.values is None and column == "anchor":
            continue  # two anchors a subgraph: nothing reads them in a frame
        found = have[column]
        found = found[:, : value.size(1)] if about.ends else found[: value.size(0)]
        assert torch.equal(found, value), column
        compared += 1
    assert compared >= 16  # a bag without messages has fewest
    with torch.no_grad():
        out, padded = model.predict(expected.graph.x, expected), model.predict(frame.bag.graph.x, frame.bag)
    assert torch.allclose(padded[: ids.numel()], out, atol=1e-6)


@pytest.mark.parametrize("name", ["sun", "sswlpublished", "ngnnpublished", "gnnakpluspublished", "idgnnpublished", "ppgn"])
def test_padding_counts_for_no_norm(name: str) -> None:
    torch.manual_seed(0)
    policy = {} if name == "ppgn" else {"policy": "ego+:2"}
    graphs, ids = pack(), torch.tensor([8, 2, 5])
    model = reign.build_model(name, 3, 4, 2, 1, **policy).double()
    graphs = graphs.to(dtype=torch.float64)
    expected, frame = bag_of(model, graphs, ids), filled(model, graphs, ids)
    results = []
    for bag in (expected, frame.bag):
        twin = reign.build_model(name, 3, 4, 2, 1, **policy).double()
        twin.load_state_dict(model.state_dict())
        out = twin.train().predict(bag.graph.x, bag)[: ids.numel()]
        out.square().sum().backward()
        results.append([out.detach(), *(p.grad for p in twin.parameters() if p.requires_grad), *twin.buffers()])
    for value, other in zip(*results, strict=True):
        assert torch.allclose(value, other, atol=1e-10)


def test_padding_has_no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused kernels take statistics of rows with flags; the graph itself, as a bag in the cache of another one, has its own."""

    plain = bag_of

    def prepared(*args: Any) -> SubgraphBag:
        bag = plain(*args)
        kernel_pairs(bag, False, True), kernel_pairs(whole(bag), False, False)
        return bag

    graphs, ids = pack(), torch.tensor([8, 2, 5])
    model = reign.build_model("ngnn", 3, 4, 2, 1, policy="ego:1")
    expected = prepared(model, graphs, ids)
    monkeypatch.setitem(globals(), "bag_of", prepared)
    frame = filled(model, graphs, ids)
    for bag, padded, masked in ((expected, frame.bag, True), (whole(expected), whole(frame.bag), False)):
        flags, real = kernel_pairs(padded, False, masked).flags, padded.real("pair")
        assert real is not None
        assert torch.equal(flags[real], kernel_pairs(bag, False, masked).flags)
        assert (~real).any()
        assert not flags[~real].any()


def test_a_frame_makes_nothing_that_would_go_stale() -> None:
    model, graphs = reign.build_model("ds", 3, 4, 1, 1, policy="nm").eval(), pack()
    frame = filled(model, graphs, torch.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="was not prepared for a bag of fixed sizes"):
        _ = frame.bag.transpose


def test_sizes() -> None:
    model, graphs = reign.build_model("ds", 3, 4, 1, 1, policy="nm").eval(), pack()
    store = BagStore([bag_of(model, graphs, torch.arange(len(graphs)))])
    ids = torch.tensor([[0, 1], [2, store.num_graphs]])
    totals = store.totals(ids)
    assert totals[:, store.spaces.index("node")].tolist() == [int(graphs.sizes[:2].sum()), int(graphs.sizes[2])]
    assert totals[:, store.spaces.index("pair")].tolist() == [int((graphs.sizes[:2] ** 2).sum()), int(graphs.sizes[2] ** 2)]
    frame = store.frame(2, totals[1])
    assert frame.fits(totals).tolist() == [bool((totals[0] <= totals[1]).all()), True]


def test_the_largest_graph_of_all_bags() -> None:
    """A frame has room for the largest graph of the data set, in whichever part it lies."""
    model, graphs = reign.build_model("ppgnrrwp", 3, 4, 1, 1), pack()
    sizes = graphs.batch(torch.arange(9)).batch.bincount()
    order = sizes.argsort(descending=True)
    parts = [bag_of(model, graphs, ids) for ids in order.split(3)]
    assert [part.largest for part in parts] == [int(sizes[ids[0]]) for ids in order.split(3)]
    assert parts[2].largest < parts[0].largest
    store = BagStore(parts)
    assert store.frame(2, store.totals(torch.tensor([0, 1]))).bag.largest == int(sizes.max())


def exact_bag(model: Model, graphs: GraphPack, ids: torch.Tensor) -> SubgraphBag:
    b = graphs.batch(ids)
    bag = model.policy(b.x, b.edge_index, None, b.batch, batch_size=b.size, domain=model.domain)
    model.prepare(b.x, bag)
    return bag


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize(("name", "options"), [(name, options) for name, options in MODELS if options.get("policy") != "ed"])
def test_a_batch_is_the_bag_of_its_graphs(name: str, options: dict[str, object]) -> None:
    torch.manual_seed(0)
    model, graphs, ids = reign.build_model(name, 3, 4, 2, 1, **options).eval(), pack(), torch.tensor([7, 0, 3, 4])
    store = BagStore([exact_bag(model, graphs, torch.arange(0, 4)), exact_bag(model, graphs, torch.arange(4, len(graphs)))])
    expected, bag = exact_bag(model, graphs, ids), Assembly(store).batch(ids)
    have = {column: value for column, value, _ in all_columns(bag)}
    for column, value, _ in all_columns(expected):
        assert torch.equal(have[column], value), column
        assert have[column].dtype == value.dtype, column
    assert maps_of(bag) == maps_of(expected)
    with torch.no_grad():
        assert torch.equal(model.predict(bag.graph.x, bag), model.predict(expected.graph.x, expected))


def test_a_graph_may_come_twice_and_rows_may_have_no_index() -> None:
    """Node deletion without pairs outside of subgraphs: a root has no row."""
    graphs, ids = pack(), torch.tensor([5, 5, 2])
    policy = reign.policy("nd")

    def made(ids: torch.Tensor) -> SubgraphBag:
        b = graphs.batch(ids)
        bag = policy(b.x, b.edge_index, None, b.batch, batch_size=b.size, domain="members")
        assert bag.root_row.numel() == 0 or int(bag.root_row.max()) == -1
        return bag

    bag, expected = Assembly(BagStore([made(torch.arange(len(graphs)))])).batch(ids), made(ids)
    assert torch.equal(bag.root_row, expected.root_row)
    assert torch.equal(bag.row_ptr, expected.row_ptr)
    assert torch.equal(bag.graph.edge_index, expected.graph.edge_index)


def test_a_bound_is_that_of_the_graphs_of_the_batch() -> None:
    graphs = pack()
    b = graphs.batch(torch.arange(len(graphs)))
    bag = reign.policy("nm")(b.x, b.edge_index, None, b.batch, batch_size=b.size)
    assert bag.largest == int(graphs.sizes.max())
    smallest = graphs.sizes.argmin()
    assert Assembly(BagStore([bag])).batch(smallest[None]).largest == int(graphs.sizes.min())


def test_edges_that_are_cut_cannot_be_assembled() -> None:
    graphs = pack()
    assert maps_of(exact_bag(reign.build_model("dss", 3, 4, 2, 1, policy="ed"), graphs, torch.arange(3))) == []


@pytest.mark.parametrize("total", [0, 15, 16, 31, 71_307])
def test_frames_have_whole_tiles_of_rows_and_one_of_padding_at_least(total: int) -> None:
    rows = _store._padded(total)
    assert rows % 16 == 0
    assert total < rows <= total + 16
