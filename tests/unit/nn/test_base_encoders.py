"""Base encoders against PyG's own convolutions on the disjoint union of all subgraphs."""

import pytest
import torch
import torch_geometric.nn as pyg
from torch import Tensor, nn
from torch_geometric.data import Batch

import reign
from reign.nn import GIN, DSConv, SubgraphConv, make_conv
from reign.testing import random_graphs


def bag(policy: str = "ego:1", edge_dim: int | None = None, loops: bool = False) -> reign.SubgraphBag:
    graphs = random_graphs(4, min_nodes=2, edge_prob=0.5, edge_dim=edge_dim, dtype=torch.float64)
    if loops:
        for data in graphs:
            data.edge_index = torch.cat([data.edge_index, torch.zeros(2, 1, dtype=torch.long)], dim=1)
    return reign.policy(policy).from_data(Batch.from_data_list(graphs))


def layer(conv: object, **options: object) -> DSConv:
    torch.manual_seed(0)
    return DSConv(3, 5, conv=conv, norm=None, act=None, **options).double()


def union_edges(bag: reign.SubgraphBag) -> Tensor:
    return bag.expand().edge_index


@pytest.mark.parametrize("policy", ["nm", "nd", "ego:1", "ed", "2-nd"])
def test_graphconv(policy: str) -> None:
    here = bag(policy)
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    ours = layer("graphconv")
    encoder = ours.terms[0].encoder
    theirs = pyg.GraphConv(3, 5).double()
    theirs.lin_root.weight, theirs.lin_rel.weight = encoder.lin_own.weight, encoder.lin_sums[0].weight
    theirs.lin_rel.bias = encoder.lin_own.bias
    torch.testing.assert_close(ours(h, here), theirs(h, union_edges(here)))


@pytest.mark.parametrize("policy", ["nm", "nd", "ego:1", "ed", "2-nd"])
def test_gin(policy: str) -> None:
    here = bag(policy)
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    ours = layer("gin")
    encoder = ours.terms[0].encoder
    encoder.eps.data.fill_(0.3)
    theirs = pyg.GINConv(nn.Identity(), eps=0.3)
    torch.testing.assert_close(ours(h, here), encoder.mlp(theirs(h, union_edges(here)).double()))


@pytest.mark.parametrize("policy", ["nm", "nd", "ego:1", "ed", "2-nd"])
def test_gine(policy: str) -> None:
    here = bag(policy, edge_dim=3)
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    ours = layer("gine", edge_dim=3)
    encoder = ours.terms[0].encoder
    theirs = pyg.GINEConv(nn.Sequential(nn.Linear(3, 3)), eps=0.0).double()
    theirs.nn = encoder.mlp
    union = here.expand()
    torch.testing.assert_close(ours(h, here), theirs(h, union.edge_index, encoder.edge_encoder(union.edge_attr)))


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("policy", ["nm", "nd", "ego:1", "ed", "2-nd"])
def test_gcn(policy: str, loops: bool) -> None:
    here = bag(policy, loops=loops)
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    ours = layer("gcn")
    encoder = ours.terms[0].encoder
    theirs = pyg.GCNConv(3, 5).double()
    theirs.lin.weight, theirs.bias = encoder.lin.weight, encoder.bias
    torch.testing.assert_close(ours(h, here), theirs(h, union_edges(here)))


@pytest.mark.parametrize("conv", ["gin", "gine", "gcn", "graphconv", "SAGEConv"])
@pytest.mark.parametrize("merged", ["own+local", "own+swap_local"])
def test_on_roots_alone_equals_everywhere_at_the_roots(conv: str, merged: str) -> None:
    here = bag("ego:1", edge_dim=2)
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    options = {"norm": None, "act": None, "conv": conv, **({"edge_dim": 2} if conv == "gine" else {})}
    torch.manual_seed(0)
    everywhere = SubgraphConv(3, 5, [merged], **options).double()
    with_roots = SubgraphConv(3, 5, [merged], [merged], **options).double()
    with_roots.terms.load_state_dict(everywhere.terms.state_dict())
    with_roots.root_terms.load_state_dict(everywhere.terms.state_dict())
    torch.testing.assert_close(with_roots(h, here), everywhere(h, here))


@pytest.mark.parametrize("native", ["graphconv", "gcn"])
def test_any_pyg_convolution_equals_the_native_one(native: str) -> None:
    here = bag("ego+:1")
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    ours = layer(native)
    slow = layer({"graphconv": pyg.GraphConv, "gcn": "GCNConv"}[native])
    encoder, conv = ours.terms[0].encoder, slow.terms[0].encoder.conv
    if native == "gcn":
        conv.lin.weight, conv.bias = encoder.lin.weight, encoder.bias
    else:
        conv.lin_root.weight, conv.lin_rel.weight = encoder.lin_own.weight, encoder.lin_sums[0].weight
        conv.lin_rel.bias = encoder.lin_own.bias
    torch.testing.assert_close(ours(h, here), slow(h, here))


def test_any_pyg_convolution_with_edge_features() -> None:
    here = bag("ego:1", edge_dim=2)
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    slow = layer("TransformerConv", edge_dim=2)
    union = here.expand()
    torch.testing.assert_close(slow(h, here), slow.terms[0].encoder.conv(h, union.edge_index, union.edge_attr))


def test_weights_of_messages_from_roots() -> None:
    """eq. IDGNN, one pair at a time."""
    here = bag("ego:1")
    h = torch.randn(here.num_pairs, 3, dtype=torch.float64)
    torch.manual_seed(0)
    ours = reign.nn.IDConv(3, 5, conv="graphconv", norm=None, act=None).double()
    encoder = ours.terms[0].encoder
    out = ours(h, here)
    for row in range(here.num_pairs):
        expected = encoder.lin_own(h[row])
        for source, target, _ in zip(*here.pair_edges, strict=True):
            if int(target) == row:
                from_root = int(source) == int(here.root_row[here.sub[row]])
                expected = expected + encoder.lin_sums[1 if from_root else 0](h[source])
        torch.testing.assert_close(out[row], expected)
    # the same for GIN, with its own linear maps before the MLP; and with bonds of no effect GINE is that of relu'd values
    gin = reign.nn.IDConv(3, 5, conv="gin", norm=None, act=None).double()
    state = reign.nn.State(h, here)
    others, root = (state.get(reign.nn.TERMS[name]) for name in ("local_others", "root_msg"))
    mix = gin.terms[0].encoder.mix
    torch.testing.assert_close(gin(h, here), gin.terms[0].encoder.mlp(h + mix[0](others) + mix[1](root)))
    bonds = bag("ego:1", edge_dim=2)
    gine = reign.nn.IDConv(3, 5, conv="gin", edge_dim=2, norm=None, act=None).double()
    encoder = gine.terms[0].encoder
    nn.init.zeros_(encoder.edge_encoder.weight)
    nn.init.zeros_(encoder.edge_encoder.bias)
    h = torch.randn(bonds.num_pairs, 3, dtype=torch.float64)
    state = reign.nn.State(h.relu(), bonds)
    others, root = (state.get(reign.nn.TERMS[name]) for name in ("local_others", "root_msg"))
    torch.testing.assert_close(gine(h, bonds), encoder.mlp(h + encoder.mix[0](others) + encoder.mix[1](root)))


@pytest.mark.parametrize(
    ("conv", "options", "message"),
    [
        ("gcn", {"edge_dim": 2}, "conv 'gcn' takes no edge features"),
        ("gine", {}, "conv 'gine' needs edge features"),
        ("gim", {}, "conv is 'gim', expected 'gin', 'gine', 'gcn', 'graphconv', a class of torch_geometric.nn or its name"),
    ],
)
def test_wrong_convs(conv: str, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_conv(conv, 3, 5, "own+local", **options)


def test_missing_edge_features() -> None:
    here = bag("ego:1")
    with pytest.raises(ValueError, match="made for edge features"):
        layer("gine", edge_dim=2)(torch.randn(here.num_pairs, 3, dtype=torch.float64), here)
    with pytest.raises(ValueError, match="separate weights for messages from roots need a native conv"):
        reign.nn.IDConv(3, 5, conv="SAGEConv")


def test_fixed_epsilon() -> None:
    assert not GIN(3, 5, train_eps=False).eps.requires_grad
    assert GIN(3, 5).eps.requires_grad
