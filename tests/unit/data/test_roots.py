"""Batches of nodes of one large graph: what they hold, and that predictions are those of the whole graph where they are said to be."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.utils import grid, to_undirected

from reign.bags import kernel_pairs
from reign.data import RootLoader, predict_nodes
from reign.kernels import INNER, blocked, fast_path
from reign.nn import (
    DS,
    DSS,
    IDGNN,
    MPNN,
    NGNN,
    SUN,
    IDGNNPublished,
    Model,
    NGNNTUPublished,
    RootPooling,
    SubgraphGNN,
)
from reign.policies import whole

NODE = {"task_level": "node"}
EXACT: dict[str, tuple[int, Callable[[], Model]]] = {
    "IDGNN": (0, lambda: IDGNN(3, 8, 3, 2, policy="ego+:2", **NODE)),
    "IDGNN, published": (0, lambda: IDGNNPublished(3, 8, 2, 2, policy="ego:2", **NODE)),
    "NGNN": (2, lambda: NGNN(3, 8, 2, 2, policy="ego:2", outer_layers=2, **NODE)),
    "NGNN, GCN": (2, lambda: NGNN(3, 8, 2, 2, policy="ego:1", outer_layers=2, conv="gcn", **NODE)),
    "NGNN, layer norm": (1, lambda: NGNN(3, 8, 2, 2, policy="ego:1", norm="layer_norm", **NODE)),
    "NGNN for TU, published": (2, lambda: NGNNTUPublished(3, 8, 2, 2, policy="ego:2", **NODE)),
    "DS": (2, lambda: DS(3, 8, 2, 2, policy="ego+:2", domain="members", **NODE)),
    "DS, roots": (0, lambda: DS(3, 8, 2, 2, policy="ego+:2", domain="members", pooling=RootPooling, **NODE)),
    "terms": (
        1,
        lambda: SubgraphGNN(
            3, 8, 2, 2, policy="ego+:1", domain="members", terms=["own", "local", "root"], root_terms=["own", "readout"], **NODE
        ),
    ),
    "GIN": (2, lambda: MPNN(3, 8, 2, 2, **NODE)),
    "GCN": (3, lambda: MPNN(3, 8, 2, 2, conv="gcn", **NODE)),
}


def large(nodes: int = 70, edges: int = 100, directed: bool = False) -> Data:
    """A random graph with features and one target per node."""
    edge_index = torch.randint(0, nodes, (2, edges))
    edge_index = edge_index if directed else to_undirected(edge_index, num_nodes=nodes)
    return Data(x=torch.randn(nodes, 3), edge_index=edge_index, y=torch.arange(nodes))


def trained(model: Model, data: Data) -> Model:
    """A model whose norms have seen the graph."""
    model(data)
    return model.eval()


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", EXACT)
def test_batches_give_the_predictions_of_the_whole_graph(name: str, directed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=0))  # small layers are computed in blocks, too
    halo, make = EXACT[name]
    data = large(directed=directed)
    model = trained(make(), data)
    assert model.halo == halo
    with torch.no_grad():
        whole = model(data)
    for fast in (True, False):
        with fast_path(fast):
            torch.testing.assert_close(predict_nodes(model, data, 30), whole)
    if halo:
        assert (predict_nodes(model, data, 30, halo=halo - 1) - whole).abs().max() > 1e-4


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize(
    "model",
    [DSS(3, 8, 2, 2, policy="ego+:1", domain="members", **NODE), SUN(3, 8, 2, 2, policy="ego+:1", domain="members", **NODE)],
)
def test_models_that_exchange_values_estimate_until_the_halo_is_the_whole_graph(model: Model) -> None:
    data = large()
    assert trained(model, data).halo is None
    with torch.no_grad():
        whole = model(data)
    assert (predict_nodes(model, data, 30) - whole).abs().max() > 1e-3
    torch.testing.assert_close(predict_nodes(model, data, 30, halo=70), whole)


def test_the_model_says_when_it_has_no_halo() -> None:
    def with_(**options: object) -> int | None:
        return SubgraphGNN(3, 8, 2, 2, **{"policy": "ego+:2", "domain": "members", "task_level": "node"} | options).halo

    assert with_() == 2
    assert with_(conv="SGConv") == 2
    assert NGNN(3, 8, 2, 2, policy="ego:2", conv="SGConv", **NODE).halo is None
    assert with_(domain="all") is None
    assert with_(policy="nm") is None
    assert with_(policy="ego+:2@0.5") is None
    assert with_(virtual_node=True) is None
    assert with_(encodings={"pairs": ["hop:3"]}) is None
    assert with_(terms=["own", "needle"]) is None
    assert with_(terms=["own"], root_terms=["root_needle"]) is None
    assert SUN(3, 8, 2, 2, **NODE).needs_every_root
    assert not DSS(3, 8, 2, 2, **NODE).needs_every_root


def test_a_batch_holds_its_nodes_first_and_only_what_they_need() -> None:
    edge_index, _ = grid(20, 20)
    data = Data(
        x=torch.randn(400, 3), edge_index=edge_index, edge_attr=torch.randn(edge_index.size(1), 2), y=torch.arange(400), name="grid"
    )
    loader = RootLoader(data, IDGNN(3, 8, 2, 2, policy="ego+:2", **NODE), batch_size=3)
    batch = loader.batch([210, 5, 0])
    assert batch.batch_size == 3
    assert batch.n_id[:3].tolist() == batch.y[:3].tolist() == [210, 5, 0]
    assert torch.equal(batch.x, data.x[batch.n_id])
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert torch.equal(batch.edge_attr, data.edge_attr[batch.e_id])
    assert torch.equal(batch.bag.graph.edge_attr, batch.edge_attr)
    balls = reach(data, [210, 5, 0], 2)
    assert set(batch.n_id.tolist()) == set().union(*balls)
    inside = torch.isin(data.edge_index, batch.n_id).all(0)
    assert torch.equal(batch.e_id, inside.nonzero().squeeze(1))
    assert batch.bag.root.tolist() == [0, 1, 2]
    assert batch.bag.row_ptr.diff().tolist() == [len(ball) for ball in balls]
    assert loader.batch([210, 5, 0]).n_id.tolist() == batch.n_id.tolist()  # nothing is left behind by a batch
    assert batch.to("meta").bag.device.type == "meta"


def reach(data: Data, roots: list[int], hops: int) -> list[set[int]]:
    """The nodes within some hops of each root, by a plain search."""
    found = []
    for root in roots:
        ball = {root}
        for _ in range(hops):
            ball |= {t for s, t in data.edge_index.t().tolist() if s in ball}
        found.append(ball)
    return found


def test_gradients_of_batches_add_up_to_that_of_the_whole_graph() -> None:
    data = large()
    model = IDGNN(3, 8, 2, 1, policy="ego+:2", norm=None, **NODE).double()
    data.x = data.x.double()
    model(data).square().sum().backward()
    whole = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    for batch in RootLoader(data, model, 9, shuffle=True):
        model(batch).square().sum().backward()
    for p, grad in zip(model.parameters(), whole, strict=True):
        torch.testing.assert_close(p.grad, grad)


def test_norms_of_outer_layers_do_not_count_nodes_without_subgraphs() -> None:
    data = large(nodes=40, edges=60)
    model = NGNN(3, 8, 1, 1, policy="ego:1", outer_layers=1, norm="batch_norm", **NODE)
    loader = RootLoader(data, model, 5)
    batch = loader.batch(range(5))
    seen = []
    norm = next(module for module in model.pooling.modules() if isinstance(module, torch.nn.BatchNorm1d))
    norm.masked = lambda x, mask, relu=False: seen.append(mask) or x  # type: ignore[method-assign]
    model(batch)
    assert seen[0].nonzero().squeeze(1).tolist() == batch.bag.root.tolist()
    assert len(seen[0]) > batch.bag.num_subgraphs
    flags = kernel_pairs(whole(batch.bag), roots_apart=False, masked=False).flags  # for the fused kernels
    assert torch.equal(flags & INNER > 0, seen[0])


def test_loading_some_nodes_shuffled() -> None:
    data, model = large(), IDGNN(3, 8, 2, 2, policy="ego+:1", **NODE)
    mask = data.y % 2 == 0
    draw = torch.Generator().manual_seed(1)
    loader = RootLoader(data, model, 10, nodes=mask, shuffle=True, generator=draw)
    seen = torch.cat([batch.y[: batch.batch_size] for batch in loader])
    assert len(loader) == 4
    assert seen.tolist() != data.y[mask].tolist()
    assert seen.sort().values.tolist() == data.y[mask].tolist()
    out = predict_nodes(model.train(), data, 10, nodes=torch.tensor([7, 3]))
    assert model.training
    torch.testing.assert_close(out, model.eval()(data)[[7, 3]].detach())


@pytest.mark.usefixtures("signatures_unchecked")
def test_mistakes() -> None:
    data, model = large(), IDGNN(3, 8, 2, 2, policy="ego+:1", **NODE)
    with pytest.raises(ValueError, match="expected 'node'"):
        RootLoader(data, IDGNN(3, 8, 2, 2))
    with pytest.raises(ValueError, match="make it with domain='members'"):
        RootLoader(data, DS(3, 8, 2, 2, **NODE))
    with pytest.raises(ValueError, match="expected ego nets such as"):
        RootLoader(data, DS(3, 8, 2, 2, policy="nm", **NODE))
    for options in ({"virtual_node": True}, {"conv": "SGConv"}, {"encodings": {"nodes": ["return:3"]}}):
        with pytest.raises(ValueError, match="may come from anywhere in the graph"):
            RootLoader(data, MPNN(3, 8, 2, 2, **options, **NODE))
    with pytest.raises(ValueError, match="may come from anywhere in the graph"):
        RootLoader(data, SubgraphGNN(3, 8, 2, 2, policy="whole", terms=["own", "readout"], **NODE))
    with pytest.raises(ValueError, match="expected a reign.nn.Model"):
        RootLoader(data, torch.nn.Linear(3, 2))
    for nodes in (torch.ones(5, dtype=torch.bool), torch.tensor([70]), torch.tensor([-1]), torch.tensor([], dtype=torch.long), [1]):
        with pytest.raises(ValueError, match="expected a Boolean mask of the 70 nodes"):
            RootLoader(data, model, nodes=nodes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected distinct nodes"):
        RootLoader(data, model).batch([1, 1])
    with pytest.raises(ValueError, match="RootLoader sets it"):
        RootLoader(data, model, collate_fn=list)
    with pytest.raises(ValueError, match="halo is -1"):
        RootLoader(data, model, halo=-1)


@pytest.mark.usefixtures("signatures_unchecked")
def test_a_bag_of_some_roots() -> None:
    data = large()
    policy = IDGNN(3, 8, 2, 2, policy="ego+:1").policy
    bag = policy(data.x, data.edge_index, domain="members", roots=torch.tensor([9, 4, 9]))
    assert bag.root.tolist() == [4, 9]
    assert not bag.node_based
    values = torch.tensor([[1.0], [2.0]])
    assert bag.at_roots(values, "x").nonzero()[:, 0].tolist() == [4, 9]
    with pytest.raises(ValueError, match="only 2 of 70 nodes were chosen as roots"):
        SUN(3, 8, 2, 2, policy="ego+:1", domain="members")(data.x, data.edge_index, bag=bag)
    for roots in (torch.tensor([70]), torch.tensor([0.5])):
        with pytest.raises(ValueError, match="expected a tensor of dtype torch.long"):
            policy(data.x, data.edge_index, roots=roots)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="does not have one subgraph per node"):
        MPNN(3, 8, 2, 2).policy(data.x, data.edge_index, roots=torch.tensor([0]))
