"""LocalFolklore and PPGN on random walks against plain dense formulas, forward and gradient, on directed graphs with bonds."""

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import relu
from torch_geometric.data import Batch, Data

import reign
from property.directed import directed_graphs
from reign.nn import (
    PAIR_ENCODINGS,
    PPGNRRWP,
    LocalFolklore,
    LocalFolkloreConv,
    Model,
    PPGNRootConv,
    State,
    SubgraphConv,
    encoded,
    num_parameters,
)
from reign.nn.models._ppgn import SMALLEST, signed_root
from reign.testing import permute_graph

TYPES, BONDS = 4, 3
ALONG = {"folklore": ["own+folklore"], "swap_folklore": ["own+swap_folklore"]}


def randomised(module: nn.Module) -> nn.Module:
    """In evaluation mode, with norms that do something."""
    torch.manual_seed(2)
    with torch.no_grad():
        for key, value in [*module.named_buffers(), *module.named_parameters()]:
            if key.endswith("running_var"):
                value.uniform_(0.5, 2)
            elif value.is_floating_point() and value.dim() < 2:
                value.normal_(0.2, 0.5)
    return module.double().eval()


def mlp(part: nn.Module, x: Tensor) -> Tensor:
    return part.lin2(relu(norm(part.norm, part.lin1(x))))


def norm(part: nn.Module, x: Tensor) -> Tensor:
    return (x - part.running_mean) / torch.sqrt(part.running_var + 1e-5) * part.weight + part.bias


def bonds(encoder: nn.Module, data: Data) -> dict[tuple[int, int], Tensor]:
    """The vector of the edge from j to i, under (i, j)."""
    table = encoder.columns[0].weight
    ends = data.edge_index.t().tolist()
    return {(i, j): table[kind] for (j, i), kind in zip(ends, data.edge_attr[:, 0].tolist(), strict=True)}


def folklore_sum(encoder: nn.Module, p: int, part: str, x: Tensor, data: Data) -> Tensor:
    """(1 + eps) x[k,i] + sum over j ~ i, or j ~ k, of relu(...), pair by pair."""
    edges, n = bonds(encoder.edge_encoders[p], data), data.num_nodes
    rows = []
    for k in range(n):
        for i in range(n):
            total = (1 + encoder.eps[p]) * x[k, i]
            for j in range(n):
                if part == "folklore" and (i, j) in edges:
                    total = total + relu(encoder.along(x[k, j]) + encoder.across(x[j, i]) + edges[i, j])
                if part == "swap_folklore" and (k, j) in edges:
                    total = total + relu(encoder.along(x[j, i]) + encoder.across(x[k, j]) + edges[k, j])
            rows.append(total)
    return torch.stack(rows).view(n, n, -1)


def folklore_layer(layer: nn.Module, x: Tensor, data: Data) -> Tensor:
    """relu bn(T1 + T2 + T3)."""
    both, needle = layer.terms[0].encoder, layer.terms[1].encoder
    one, two = (mlp(both.mlps[p], folklore_sum(both, p, part, x, data)) for p, part in enumerate(("folklore", "swap_folklore")))
    three = mlp(needle.mlp, (1 + needle.eps) * x + x.sum(0)[None])
    return relu(norm(layer.norm, one + two + three))


def in_blocks(left: Tensor, right: Tensor, data: Data) -> Tensor:
    """The product, of which only those summands (a, c, b) remain whose nodes are in one block, or in which a = c or a = b in one component."""
    n = data.num_nodes
    graph = nx.Graph(data.edge_index.t().tolist())
    graph.add_nodes_from(range(n))
    keep = torch.zeros(n, n, n, dtype=left.dtype)
    for block in nx.biconnected_components(graph):
        for a, c, b in permutations(block, 3):
            keep[a, c, b] = 1
    for part in nx.connected_components(graph):
        for a, b in product(part, part):
            keep[a, a, b] = keep[a, b, a] = 1
    return torch.einsum("kji,kjd,jid->kid", keep, left, right)


def product_layer(layer: nn.Module, x: Tensor, data: Data) -> Tensor:
    """x + MLP([x, sign(m) sqrt|m|])."""
    left, right = mlp(layer.left, x), mlp(layer.right, x)
    m = in_blocks(left, right, data) if layer.products == "blocks" else torch.einsum("kjd,jid->kid", left, right)
    root = torch.where(m.abs() >= SMALLEST, m.sign() * m.abs().clamp(min=1e-12).sqrt(), m / SMALLEST**0.5)
    return layer.skip(x) + mlp(layer.both, torch.cat([x, root], dim=2))


@pytest.mark.parametrize(
    ("layer", "plain"),
    [
        (LocalFolkloreConv(4, 5, edge_encoder=BONDS), folklore_layer),
        (PPGNRootConv(5, 5), product_layer),
        (PPGNRootConv(4, 5), product_layer),
        (PPGNRootConv(4, 5, products="blocks"), product_layer),
    ],
    ids=["folklore", "ppgn", "ppgn, other width", "ppgn, blocks"],
)
def test_layers_are_their_formulas(layer: nn.Module, plain: Callable[[nn.Module, Tensor, Data], Tensor]) -> None:
    """Values, and gradients of input and weights."""
    randomised(layer)
    made = directed_graphs(TYPES, BONDS)
    bag = reign.policy("null").from_data(Batch.from_data_list(made))
    torch.manual_seed(3)
    h = torch.randn(bag.num_pairs, layer.in_channels, dtype=torch.float64, requires_grad=True)
    ours = layer(h, bag)
    parts = [plain(layer, h[bag.pair_batch == g].view(d.num_nodes, d.num_nodes, -1), d).flatten(0, 1) for g, d in enumerate(made)]
    expected, weight = torch.cat(parts), torch.randn_like(ours)
    torch.testing.assert_close(ours, expected, atol=1e-10, rtol=1e-10)
    learned = [h, *(p for p in layer.parameters() if p.requires_grad)]
    grads = [torch.autograd.grad((out * weight).sum(), learned) for out in (ours, expected)]
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("part", ALONG)
def test_one_folklore_sum_by_itself(part: str) -> None:
    layer = randomised(SubgraphConv(4, 5, ALONG[part], edge_encoder=BONDS, norm_at="sum"))
    (data, *_) = directed_graphs(TYPES, BONDS)
    bag = reign.policy("null").from_data(data)
    h = torch.randn(bag.num_pairs, 4, dtype=torch.float64)
    encoder = layer.terms[0].encoder
    expected = relu(norm(layer.norm, mlp(encoder.mlps[0], folklore_sum(encoder, 0, part, h.view(6, 6, 4), data))))
    torch.testing.assert_close(layer(h, bag), expected.flatten(0, 1))


def plain_folklore(model: Model, data: Data, distance: Tensor) -> Tensor:
    x = model.node_encoder.columns[0].weight[data.x[:, 0]][None] + model.labels.embedding.weight[distance]
    for layer in model.layers:
        x = folklore_layer(layer, x, data)
    each = relu(norm(model.pooling.norm, mlp(model.pooling.mlp, x.sum(1))))
    return model.head.lin2(relu(model.head.lin1(each.mean(0))))


def plain_ppgn(model: Model, data: Data, walks: Tensor) -> Tensor:
    first = model.encodings.of_pairs[0]
    x = walks @ first.weight.t() + (0 if first.bias is None else first.bias)
    if model.encodings.of_roots is not None:
        x = x + torch.eye(data.num_nodes, dtype=x.dtype)[:, :, None] * (walks @ model.encodings.of_roots[0].weight.t())
    atoms, edges = model.node_encoder.columns[0].weight[data.x[:, 0]], bonds(model.edge_encoder, data)
    x = x + torch.einsum("id,ki->kid", atoms, torch.eye(data.num_nodes, dtype=x.dtype))
    for (k, i), vector in edges.items():
        x = x.index_put((torch.tensor(k), torch.tensor(i)), vector, accumulate=True)
    for layer in model.layers:
        x = product_layer(layer, x, data)
    roots = x.diagonal().sum(1)
    pooled = torch.cat([roots, (x.sum((0, 1)) - roots) / data.num_nodes])
    return model.head.lin3(relu(model.head.lin2(relu(model.head.lin1(pooled)))))


def test_local_folklore_is_its_formula() -> None:
    model, made = (
        randomised(LocalFolklore(6, 6, 2, 2, node_encoder=TYPES, edge_encoder=BONDS, max_distance=2)),
        directed_graphs(TYPES, BONDS),
    )
    batch = Batch.from_data_list(made)
    out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    for g, data in enumerate(made):
        distance = reign.policy("null").from_data(data).hops(2).clamp(max=2).view(data.num_nodes, data.num_nodes)
        torch.testing.assert_close(out[g], plain_folklore(model, data, distance), atol=1e-10, rtol=1e-10)


REFERENCE = {"products": "blocks", "encodings": {"pairs": ["rrwp:4"], "roots": True}}


@pytest.mark.parametrize("options", [{"walk_length": 4}, REFERENCE], ids=["all", "blocks"])
def test_ppgn_is_its_formula(options: dict[str, Any]) -> None:
    """Graphs of a batch, and alone; and with their nodes in another order."""
    model, made = randomised(PPGNRRWP(6, 6, 2, 2, node_encoder=TYPES, edge_encoder=BONDS, **options)), directed_graphs(TYPES, BONDS)
    batch = Batch.from_data_list(made)
    out = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
    for g, data in enumerate(made):
        walks = encoded(reign.policy("null").from_data(data), ["rrwp:4"], PAIR_ENCODINGS, "pair", torch.float64)
        expected = plain_ppgn(model, data, walks.view(data.num_nodes, data.num_nodes, 4))
        moved = permute_graph(data, torch.randperm(data.num_nodes))
        alone, other = (model(each.x, each.edge_index, each.edge_attr)[0] for each in (data, moved))
        for ours in (out[g], alone, other):
            torch.testing.assert_close(ours, expected, atol=1e-9, rtol=1e-9)


def test_numbers_of_weights() -> None:
    """Those of the public code, with its tables of 32 atom and 5 bond types, or of 28 and 4; and those with the types of ZINC-12k."""
    sizes = [
        num_parameters(LocalFolklore(96, 96, 6, 1, node_encoder=atoms, edge_encoder=edges)) for atoms, edges in ((32, 5), (21, 4))
    ]
    assert sizes == [495_187, 492_979]
    sizes = [num_parameters(PPGNRRWP(80, 80, 10, 1, node_encoder=atoms, edge_encoder=4)) for atoms in (28, 21)]
    assert sizes == [478_081, 477_521]


def test_signed_roots() -> None:
    x = torch.tensor([[-4.0, 0.0, 9.0, 1e-12, -1e-5]], dtype=torch.float64, requires_grad=True)
    root = signed_root(x)
    torch.testing.assert_close(root, torch.tensor([[-2.0, 0.0, 3.0, 1e-9, -(1e-5**0.5)]], dtype=torch.float64))
    root.sum().backward()
    torch.testing.assert_close(x.grad, torch.tensor([[0.25, 1e3, 1 / 6, 1e3, 0.5 * 1e5**0.5]], dtype=torch.float64))


def test_members_alone_take_part() -> None:
    """A j for which x[k, j] or x[j, i] is not in its subgraph sends no message, not even that of its bond."""
    data = directed_graphs(TYPES, BONDS)[0]
    layer = randomised(SubgraphConv(4, 5, ["own+folklore+swap_folklore"], edge_encoder=BONDS, domain="members"))
    bag = reign.policy("ego:1").from_data(data)
    h = torch.randn(bag.num_pairs, 4, dtype=torch.float64)
    member = bag.member.view(6, 6)
    found = State(h, bag, "members").bag.wiring.folklore("A", "off", True)
    expected = sum(
        int(member[k, j] and member[j, i]) for k in range(6) for i in range(6) for j, t in data.edge_index.t().tolist() if t == i
    )
    assert found.from_edges.index.numel() == expected
    compact = reign.policy("ego:1").from_data(data, domain="members")
    torch.testing.assert_close(layer(h, bag)[bag.member], layer(h[bag.member], compact))


@pytest.mark.usefixtures("signatures_unchecked")
def test_options() -> None:
    with pytest.raises(ValueError, match="'own\\+folklore' needs conv='gin', got conv='gcn'"):
        SubgraphConv(3, 4, ["own+folklore"], conv="gcn")
    with pytest.raises(ValueError, match="max_distance is -1"):
        LocalFolklore(3, 4, 2, max_distance=-1)
    with pytest.raises(ValueError, match="walk_length is -1"):
        PPGNRRWP(3, 4, 2, walk_length=-1)
    with pytest.raises(ValueError, match="products is 'ring', expected 'all' or 'blocks'"):
        PPGNRRWP(3, 4, 2, products="ring")
    with pytest.raises(ValueError, match="encodings.roots is True, expected .* only with encodings of pairs"):
        PPGNRRWP(3, 4, 2, encodings={"nodes": ["return:3"], "roots": True})
    assert LocalFolklore(3, 4, 2, max_distance=0).labels is None
    assert PPGNRRWP(3, 4, 2, walk_length=0).encodings is None
    given = PPGNRRWP(3, 4, 2, encodings={"pairs": ["hop:3"]}).encodings
    assert given is not None
    assert given.pairs == ["hop:3"]
