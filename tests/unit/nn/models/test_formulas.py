"""The layers of models and the poolings against dense formulas, written once more from the papers, on directed graphs and in float64."""

import re
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn

import reign
from model_inputs import randomised
from reign.nn import (
    IGN2,
    NGNN,
    PPGN,
    AKConv,
    AKKernel,
    DeepSets,
    DSSConv,
    IGNPooling,
    PPGNConv,
    PPGNNodesConv,
    PPGNNodesPublished,
    SSWLConv,
    State,
    SubgraphConv,
    SubgraphGNN,
    SUNConv,
)
from reign.nn.models._reign2 import IGN2_OFF, IGN2_ON
from reign.nn.models._tensors import graph_tensor
from reign.theory import basis, pool_broadcast

N, WIDTH = 6, 4
EDGES = torch.tensor([[0, 1, 1, 2, 3, 4, 0, 5], [1, 0, 2, 3, 4, 1, 4, 0]])  # some of them one way only


def bag(policy: str = "nm", domain: str = "all") -> reign.SubgraphBag:
    return reign.policy(policy)(torch.ones(N, 1, dtype=torch.float64), EDGES, domain=domain)


def values(here: reign.SubgraphBag, channels: int = 3) -> Tensor:
    return torch.randn(here.num_pairs, channels, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def adjacency() -> Tensor:
    """``A[i, j]`` is 1 for an edge from j to i."""
    A = torch.zeros(N, N, dtype=torch.float64)
    A[EDGES[1], EDGES[0]] = 1
    return A


def by_name(layer: SubgraphConv, on: bool = False) -> dict[str, Any]:
    return {slot.name: slot for slot in layer.slots(on)}


def gin(encoder: Any, own: Tensor, summed: Tensor) -> Tensor:
    return mlp(encoder.mlp, (1 + encoder.eps) * own + summed)


def mlp(module: Any, x: Tensor) -> Tensor:
    return module.lin2(module.lin1(x).relu())


@pytest.mark.parametrize("policy", ["nm", "ego:1"])
def test_sswl(policy: str) -> None:
    here, A = bag(policy), adjacency()
    h, layer = values(here), randomised(SSWLConv(3, WIDTH, norm=None))
    X, B, slots = h.view(N, N, 3), here.to_dense().A, by_name(layer)
    local, swapped = torch.einsum("kij,kjd->kid", B, X), torch.einsum("kh,hid->kid", A, X)
    out = gin(slots["own+local"].encoder, X, local) + gin(slots["own+swap_local"].encoder, X, swapped)
    out = out + mlp(slots["node_root"].transform, X.diagonal().t())[None]
    torch.testing.assert_close(layer(h, here).view(N, N, WIDTH), out.relu())


@pytest.mark.parametrize("needle", ["sum", "mean"])
def test_dss(needle: str) -> None:
    here, A = bag("ego:1"), adjacency()
    h, layer = values(here), randomised(DSSConv(3, WIDTH, needle=needle, norm=None))
    X, B, slots = h.view(N, N, 3), here.to_dense().A, by_name(layer)
    shared = X.sum(0) if needle == "sum" else X.mean(0)
    out = gin(slots["own+local"].encoder, X, torch.einsum("kij,kjd->kid", B, X))
    out = out + gin(slots["needle+needle_msg"].encoder, shared, A @ shared)[None]
    torch.testing.assert_close(layer(h, here).view(N, N, WIDTH), out.relu())


def test_sun() -> None:
    """eq. sun_exp_on and sun_exp_off, with the transposed term."""
    here, A = bag("ego:1"), adjacency()
    h, layer = values(here), randomised(SUNConv(3, WIDTH, transpose=True, norm=None))
    X, B = h.view(N, N, 3), here.to_dense().A
    root, readout, needle, local = X.diagonal().t(), X.sum(1), X.mean(0), torch.einsum("kij,kjd->kid", B, X)
    off, on = by_name(layer), by_name(layer, on=True)
    out = mlp(off["node_root"].transform, root)[None] + mlp(off["root"].transform, root)[:, None] + mlp(off["own"].transform, X)
    out = out + mlp(off["transpose"].transform, X.transpose(0, 1)) + mlp(off["readout"].transform, readout)[:, None]
    out = out + gin(off["own+local"].encoder, X, local) + gin(off["needle+needle_msg"].encoder, needle, A @ needle)[None]
    roots = mlp(on["own"].transform, root) + mlp(on["readout"].transform, readout)
    roots = roots + gin(on["own+local"].encoder, root, local.diagonal().t())
    roots = roots + gin(on["needle+needle_msg"].encoder, needle, A @ needle)
    out = out.clone()
    out[range(N), range(N)] = roots
    assert list(off) == ["node_root", "root", "own", "transpose", "readout", "own+local", "needle+needle_msg"]
    assert list(on) == ["own", "readout", "own+local", "needle+needle_msg"]
    torch.testing.assert_close(layer(h, here).view(N, N, WIDTH), out.relu())


def test_2_ign_has_all_15_maps() -> None:
    """Each weight of a layer set to 1 in turn gives a linear map; they span what the 15 maps of the basis span."""
    n = 5
    ring = torch.tensor([[0, 1, 2, 3, 4], [1, 2, 3, 4, 0]])
    here = reign.policy("null")(torch.ones(n, 1, dtype=torch.float64), ring)
    layer = IGN2.make_layer(1, 1, act=None, norm=None).double()
    probes = torch.randn(4, n * n, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = [p for name, p in layer.named_parameters() if name.endswith("weight")]
    assert len(weights) == len(IGN2_OFF) + len(IGN2_ON) == 15
    found = []
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for weight in weights:
            weight.fill_(1)
            found.append(torch.cat([layer(h, here).flatten() for h in probes]))
            weight.zero_()
    ours = torch.stack(found)
    theirs = torch.stack([torch.cat([pool_broadcast(h.view(n, n, 1), op).flatten() for h in probes]) for op in basis(2, 2)])
    assert torch.linalg.matrix_rank(ours) == torch.linalg.matrix_rank(theirs) == 15
    assert torch.linalg.matrix_rank(torch.cat([ours, theirs])) == 15


@pytest.mark.parametrize("kind", [IGN2, PPGN])
def test_a_directed_graph_as_a_tensor(kind: type) -> None:
    """h[i, i] = [x_i, 0, 0], and h[i, j] = [0, 1, e_ij] for an edge from j to i."""
    x, edge_index, edge_attr = torch.tensor([[7.0], [8.0], [9.0]]), torch.tensor([[0, 2], [1, 1]]), torch.tensor([[0.5], [0.25]])
    here = reign.policy("null")(x, edge_index, edge_attr)
    expected = torch.zeros(3, 3, 3)
    expected[range(3), range(3), 0] = x[:, 0]
    expected[1, 0, 1:], expected[1, 2, 1:] = torch.tensor([1, 0.5]), torch.tensor([1, 0.25])
    assert torch.equal(graph_tensor(x, here, 1, edge_attr).view(3, 3, 3), expected)
    assert torch.equal(kind(1, 4, 1, 1, edge_dim=1).lift(x, here).view(3, 3, 3), expected)


def test_ppgn() -> None:
    here = bag("null")
    h, layer = values(here), randomised(PPGNConv(3, WIDTH, norm=None))
    X = h.view(N, N, 3)
    product = torch.einsum("kjd,jid->kid", mlp(layer.left, X), mlp(layer.right, X)) / N
    torch.testing.assert_close(layer(h, here).view(N, N, WIDTH), layer.skip(torch.cat([X, product], dim=2)).relu())


@pytest.mark.parametrize("types", [None, 2])
def test_ppgn_of_nodes(types: int | None) -> None:
    """Blocks between vectors of nodes, to which the input is added, a sum over nodes, and a head with a norm. Self-loops do not count."""
    model = randomised(PPGNNodesPublished(3, WIDTH, 2, 1, edge_encoder=types)).eval()
    (layer,) = model.layers
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    edges = torch.cat([EDGES, torch.tensor([[2, 5], [2, 5]])], dim=1)
    kinds = torch.arange(edges.size(1)) % (types or 1)
    X = torch.diag_embed(x.t()).permute(1, 2, 0).clone()
    table = layer.edge if types is None else layer.edge_encoder.columns[0].weight
    X[EDGES[1], EDGES[0]] += table[kinds[: EDGES.size(1)]]
    for block in layer.blocks:
        left = right = X
        for one, other in zip(block.left, block.right, strict=True):
            left, right = one(left).relu(), other(right).relu()
        X = block.skip(torch.cat([X, torch.einsum("kjd,jid->kid", left, right)], dim=2))
    diagonal = X.diagonal().t()
    nodes = layer.both_norm(torch.cat([diagonal, X.sum(1) - diagonal], dim=1))
    nodes = layer.mlp.lin2(layer.mlp.norm(layer.mlp.lin1(nodes)).relu())
    total = (layer.norm(nodes).relu() + model.residual(x)).sum(0)
    expected = model.head.lin2(model.head.norm1(model.head.lin1(total)[None]).relu())
    torch.testing.assert_close(model(x, edges, None if types is None else kinds), expected)


def test_ppgn_of_nodes_in_mixed_precision_and_what_it_refuses() -> None:
    x, attr = torch.randn(N, 3), torch.randn(EDGES.size(1), 2)
    for options in ({}, {"edge_dim": 2}, {"node_encoder": "numbers:3"}):
        with torch.autocast("cpu", torch.bfloat16):
            model = PPGNNodesPublished(WIDTH if "node_encoder" in options else 3, WIDTH, 2, 1, **options)
            assert model(x, EDGES, attr if "edge_dim" in options else None).isfinite().all()
    with pytest.raises(ValueError, match="blocks is 0"):
        PPGNNodesConv(3, WIDTH, blocks=0)


def hops(depth: int) -> Tensor:
    """The hop distance from k to i in ego nets of a depth, whichever way edges point, and one more for nodes outside."""
    lengths = dict(nx.all_pairs_shortest_path_length(nx.Graph(EDGES.t().tolist())))
    return torch.tensor([[lengths[k][i] if lengths[k].get(i, N) <= depth else depth + 1 for i in range(N)] for k in range(N)])


@pytest.mark.parametrize("combine", ["cat", "sum", "linear"])
@pytest.mark.parametrize("aggregation", ["sum", "mean"])
@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("plus", [None, 2])
def test_gnn_ak(plus: int | None, domain: str, aggregation: str, combine: str) -> None:
    """Centroid, subgraph and context of GNN-AK-ctx; for GNN-AK+ with distances, transforms and sigmoid gates."""
    here, size = bag("ego:2"), 3 * WIDTH if combine == "cat" else WIDTH
    how = {"aggregation": aggregation, "combine": combine, "end_act": combine == "linear"}
    layer = randomised(AKConv(3, size, inner_layers=1, context=True, plus=plus, norm=None, domain=domain, **how))
    h, B = values(here), here.to_dense().A
    kept = here.member.view(N, N, 1).double() if domain == "members" else torch.ones(N, N, 1, dtype=torch.float64)
    far = hops(2) if plus is None else hops(plus)
    assert far.unique().tolist() == [0, 1, 2, 3]
    X = h.view(N, N, 3) + (0 if plus is None else layer.distance(far))
    X = X * kept
    X = gin(layer.inner[0].slots()[0].encoder, X, torch.einsum("kij,kjd->kid", B, X)).relu() * kept
    parts = []
    for p in range(3):
        V = X
        if plus is not None:
            V = mlp(layer.before[p], X) * (1 / (1 + (-layer.gates[p](far)).exp()))
        V = V * kept
        total, number = [(V.diagonal().t(), 1), (V.sum(1), kept.sum(1)), (V.sum(0), kept.sum(0))][p]
        parts.append(total / number if aggregation == "mean" else total)
    joined = torch.cat(parts, dim=1)
    out = sum(parts) if combine == "sum" else joined if combine == "cat" else layer.mix(joined).relu()
    assert layer.parts == ["node_root", "node_readout", "needle"]
    torch.testing.assert_close(layer(h, here).view(N, N, size), out[None].expand(N, N, size))


def test_the_parts_of_a_concatenation_have_equal_widths() -> None:
    with pytest.raises(ValueError, match="out_channels is 4, expected a multiple of 3, the number of parts that are concatenated"):
        AKConv(3, 4, context=True)


@pytest.mark.parametrize("kind", [AKConv, AKKernel])
def test_marks_before_a_block_of_gnn_ak(kind: type) -> None:
    """They are channels in front of the input."""
    here = bag("ego+:1")
    assert here.mark is not None
    h, wide, marked = values(here), randomised(kind(5, WIDTH, norm=None)), kind(3, WIDTH, marks=2, norm=None).double()
    marked.load_state_dict(wide.state_dict())
    torch.testing.assert_close(marked(h, here), wide(torch.cat([here.mark.double(), h], dim=1), here))


def test_ngnn() -> None:
    """The readout of each ego net, message passing on the graph itself, and the mean over nodes, as in the code of the experiments."""
    means = {"readout": "mean", "graph_pooling": "mean"}
    model = randomised(NGNN(3, WIDTH, 1, policy="ego:1", outer_layers=1, norm=None, **means)).eval()
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    member, B = here_members("ego:1")
    X = x[None].expand(N, N, 3) * member
    X = gin(model.layers[0].slots()[0].encoder, X, torch.einsum("kij,kjd->kid", B, X)).relu() * member
    nodes = X.sum(1) / member.sum(1)
    nodes = gin(model.pooling.layers[0].slots()[0].encoder, nodes, adjacency() @ nodes).relu()
    torch.testing.assert_close(model(x, EDGES), nodes.mean(0, keepdim=True))


def here_members(policy: str) -> tuple[Tensor, Tensor]:
    dense = bag(policy).to_dense()
    return dense.member[..., None].double(), dense.A


@pytest.mark.parametrize("subgraphs", ["mean", "sum"])
@pytest.mark.parametrize("invariance", ["early", "late"])
def test_set_networks(invariance: str, subgraphs: str) -> None:
    here = bag("ego:1")
    pool = randomised(DeepSets(3, (5, 4), invariance, nodes="mean", subgraphs=subgraphs))
    over = N if subgraphs == "sum" else 1
    x = values(here).view(N, N, 3).mean(1)
    elu = nn.functional.elu
    if invariance == "early":
        for phi in pool.each:
            x = elu(phi(x))
        x = x.mean(0, keepdim=True) * over
        for rho in pool.mean:
            x = elu(rho(x))
    else:
        for each, mean in zip(pool.each, pool.mean, strict=True):
            x = elu(each(x) + mean(x.mean(0, keepdim=True) * over))
        x = x.mean(0, keepdim=True) * over
    torch.testing.assert_close(pool(State(values(here), here)), x)


@pytest.mark.parametrize("how", ["sum", "mean"])
def test_pooling_of_2_ign(how: str) -> None:
    here = bag("null")
    pool, X = randomised(IGNPooling(3, how)), values(here).view(N, N, 3)
    roots, others = X.diagonal().sum(1), X.sum((0, 1)) - X.diagonal().sum(1)
    if how == "mean":
        roots, others = roots / N, others / (N * N - N)
    torch.testing.assert_close(pool(State(values(here), here))[0], pool.roots(roots) + pool.others(others))


@pytest.mark.parametrize("name", ["own", "needle", "needle+needle_msg", "total"])
def test_sampled_roots_read_their_own_rows(name: str) -> None:
    """Values of nodes and graphs at roots that are only some of the nodes."""
    policy = reign.policies.Sampled(reign.policies.NodeMarking(), number=3, seed=4)
    here = policy(torch.ones(N, 1, dtype=torch.float64), EDGES)
    roots = here.root.tolist()
    assert roots not in ([0, 1, 2], [3, 4, 5])  # neither the first nor the last rows
    h, layer = values(here), randomised(SubgraphConv(3, WIDTH, ["own"], [name], norm=None))
    X = h.view(3, N, 3)
    needle = X.sum(0)
    (slot,) = layer.slots(on=True)
    if name == "needle+needle_msg":
        expected = gin(slot.encoder, needle, adjacency() @ needle)[roots]
    else:
        summed = {"own": X[range(3), roots], "needle": needle[roots], "total": X.sum((0, 1)).expand(3, 3)}
        expected = mlp(slot.transform, summed[name])
    torch.testing.assert_close(layer(h, here).view(3, N, WIDTH)[range(3), roots], expected.relu())


@pytest.mark.parametrize("jk", [None, "cat", "cat+input", "max", "sum"])
@pytest.mark.parametrize("residual", [False, True])
def test_layers_in_a_row(residual: bool, jk: str | None) -> None:
    """Residual connections add a linear map of the input, then what was there before; jumping knowledge joins all layers."""
    model = randomised(SubgraphGNN(3, WIDTH, 2, policy="nm", residual=residual, jk=jk, norm=None)).eval()
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    here = reign.policy("nm")(x, EDGES)
    h, seen = here.x, []
    before = model.residual(h) if residual else 0
    for layer in model.layers:
        h = before = layer(h, here) + before
        seen.append(h)
        before = before if residual else 0
    joined = {"cat": torch.cat(seen, dim=1), "cat+input": torch.cat([here.x, *seen], dim=1)}
    h = ({None: seen[-1], "max": torch.maximum(*seen), "sum": seen[0] + seen[1]} | joined)[jk]
    torch.testing.assert_close(model(x, EDGES), h.mean(0, keepdim=True))


def test_an_edge_is_its_two_ends() -> None:
    """At the level of edges the head sees the source, then the target."""
    model = randomised(SubgraphGNN(3, WIDTH, 1, 2, policy="nm", task_level="edge", norm=None)).eval()
    x = torch.randn(N, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    here = reign.policy("nm")(x, EDGES)
    nodes = model.layers[0](here.x, here).view(N, N, WIDTH).mean(0)
    torch.testing.assert_close(model(x, EDGES), model.head(torch.cat([nodes[EDGES[0]], nodes[EDGES[1]]], dim=1)))


def test_policies_by_default() -> None:
    found = {name: str(reign.build_model(name, 3, 4, 2).policy) for name in reign.list_models()}
    assert (
        found
        | {
            "sun": "ego+:3",
            "reign2": "ego+:3",
            "ds": "ego+:3",
            "dss": "ego+:3",
            "reconstructiongnn": "nd",
            "tuplesun": "2-nm",
            "tuplereign2": "2-nm",
            "ngnn": "ego:3",
            "idgnn": "ego+:2",  # as deep as it has layers
            "gnnak": "ego:3",
            "gnnakctx": "ego:3",
            "gnnakplus": "ego:3",
            "sswl": "nm+distance5",
            "ign2": "null",
            "ppgn": "null",
            "mpnn": "whole",
        }
        == found
    )


@pytest.mark.parametrize("widths", [[None], ["a", "b"], [1, 2, 3], [1.5, 2], 5])
@pytest.mark.usefixtures("signatures_unchecked")
def test_wrong_widths_are_refused_as_they_were_given(widths: Any) -> None:
    """Also by GNN-AK, whose layers are several times as wide."""
    given = widths if isinstance(widths, list) else [widths]
    for name in ("gnnak", "sun"):
        with pytest.raises(
            ValueError, match=re.escape(f"widths is {given}, expected one whole number of at least 1 for each of 2 layers")
        ):
            reign.build_model(name, 4, 8, 2, 1, widths=widths)
