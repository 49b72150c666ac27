"""Batch norms in training mode against dense formulas: which rows their statistics range over, branch by branch.

Inside of MLPs the statistics range over all rows that a value has where it lives (of pairs: the members, roots too); a norm after a base
encoder, and one at the end of a layer, leaves out the roots if these have a norm of their own.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

import reign
from model_inputs import randomised
from reign.nn import AKConv, BatchNorm, SubgraphConv, normalise
from reign.testing import random_graphs

WIDTH = 4
TERMS = ["own", "readout", "needle", "total", "own+local", "needle+needle_msg"]
ROOT_TERMS = ["own", "readout", "total", "own+local", "needle+needle_msg"]


class Dense:
    """The values of a bag as rows, and every term of them by sums over plain matrices."""

    def __init__(self, policy: str, domain: str) -> None:
        graphs = random_graphs(3, min_nodes=3, max_nodes=5, edge_prob=0.6, dtype=torch.float64, seed=3)
        self.bag = bag = reign.policy(policy).from_data(Batch.from_data_list(graphs))
        self.h = torch.randn(bag.num_pairs, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        self.kept = bag.member if domain == "members" else torch.ones_like(bag.member)
        self.roots = torch.zeros_like(bag.member)
        self.roots[[int(((bag.sub == k) & (bag.node == bag.root[k])).nonzero()) for k in range(bag.num_subgraphs)]] = True
        x = self.h * self.kept[:, None]
        into_sub, into_node = (nn.functional.one_hot(to).double().t() for to in (bag.sub, bag.node))
        into_graph = nn.functional.one_hot(bag.sub_batch).double().t()
        self.spread = {"pair": torch.eye(bag.num_pairs, dtype=torch.float64), "subgraph": into_sub.t(), "node": into_node.t()}
        self.spread["graph"] = into_sub.t() @ into_graph.t()
        union = bag.expand()
        local = torch.zeros(bag.num_pairs, bag.num_pairs, dtype=torch.float64)
        local[union.edge_index[1], union.edge_index[0]] = 1
        A = torch.zeros(bag.num_nodes, bag.num_nodes, dtype=torch.float64)
        A[bag.graph.edge_index[1], bag.graph.edge_index[0]] = 1
        readout, needle = into_sub @ x, into_node @ x
        self.terms = {
            "own": (x, "pair"),
            "readout": (readout, "subgraph"),
            "needle": (needle, "node"),
            "total": (into_graph @ readout, "graph"),
            "local": (local @ x, "pair"),
            "needle_msg": (A @ needle, "node"),
        }


def normed(norm: Any, x: Tensor, rows: Tensor) -> Tensor:
    """(x - mean) / sqrt(variance) with the statistics of some rows, 0 elsewhere; they go into the running ones by a tenth."""
    mean, var = x[rows].mean(0), x[rows].var(0, correction=0)
    out = torch.where(rows[:, None], (x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias, 0)
    norm.expected = 0.1 * mean.detach(), 0.9 + 0.1 * x[rows].var(0).detach()
    return out


def mlp(module: Any, x: Tensor, rows: Tensor) -> Tensor:
    return module.lin2(normed(module.norm, module.lin1(x), rows).relu())


def slot_value(slot: Any, dense: Dense, on: bool, roots_apart: bool, root_norms: str = "roots") -> Tensor:
    """What a slot gives, for all pairs or, ``on``, for the roots."""
    names = slot.name.split("+")
    (own, scope), more = dense.terms[names[0]], [dense.terms[name][0] for name in names[1:]]
    rows = dense.kept if scope == "pair" else torch.ones(len(own), dtype=torch.bool)
    outer = rows & ~dense.roots if roots_apart and scope == "pair" else rows
    at_roots = dense.spread[scope][dense.roots].argmax(1)
    everywhere = on and scope == "pair" and bool(more) and root_norms == "pairs"  # encoded at all pairs, then picked
    pick = (
        on and not everywhere and (scope == "pair" or not more)
    )  # single terms are transformed at the roots alone, and so are encoders of pairs
    if pick:
        own, more = own[at_roots], [value[at_roots] for value in more]
        rows = outer = torch.ones(len(own), dtype=torch.bool)
    if more:
        out = mlp(slot.encoder.mlp, (1 + slot.encoder.eps) * own + more[0], rows)
        if everywhere:
            return normed(slot.norm, out[at_roots], torch.ones(len(at_roots), dtype=torch.bool))
        out = normed(slot.norm, out, outer)
    elif isinstance(slot.transform, nn.Linear):
        out = slot.transform(own)
    else:
        out = mlp(slot.transform, own, rows)
    if on:
        return out if pick else out[at_roots]
    return dense.spread[scope] @ out


def expected_of(layer: SubgraphConv, dense: Dense, root_norms: str = "roots") -> Tensor:
    roots_apart = layer.root_terms is not None
    out = sum(slot_value(slot, dense, False, roots_apart) for slot in layer.slots())
    if isinstance(layer.norm, BatchNorm):
        out = normed(layer.norm, out, dense.kept & ~dense.roots if roots_apart else dense.kept)
    if roots_apart:
        roots = sum(slot_value(slot, dense, True, True, root_norms) for slot in layer.slots(on=True))
        if isinstance(layer.root_norm, BatchNorm):
            roots = normed(layer.root_norm, roots, torch.ones(len(roots), dtype=torch.bool))
        out = out.clone()
        out[dense.roots] = roots
    return out.relu() * dense.kept[:, None]


def check(layer: SubgraphConv, dense: Dense, root_norms: str = "roots") -> None:
    expected = expected_of(layer, dense, root_norms)
    torch.testing.assert_close(layer(dense.h, dense.bag), expected, atol=1e-9, rtol=1e-9)
    norms = [module for module in layer.modules() if isinstance(module, BatchNorm)]
    assert norms
    for norm in norms:
        torch.testing.assert_close((norm.running_mean, norm.running_var), norm.expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("roots_apart", [True, False])
@pytest.mark.parametrize("policy", ["ego:1", "nm"])
def test_mlps_and_encoders(policy: str, roots_apart: bool, domain: str) -> None:
    dense = Dense(policy, domain)
    check(randomised(SubgraphConv(3, WIDTH, TERMS, ROOT_TERMS if roots_apart else None, domain=domain)), dense)


@pytest.mark.parametrize("domain", ["all", "members"])
def test_norms_inside_encoders_of_roots_over_all_pairs(domain: str) -> None:
    dense = Dense("ego:1", domain)
    layer = randomised(SubgraphConv(3, WIDTH, TERMS, ROOT_TERMS, domain=domain, root_norms="pairs"))
    check(layer, dense, "pairs")
    assert not torch.allclose(expected_of(layer, dense, "pairs"), expected_of(layer, dense))


@pytest.mark.parametrize("domain", ["all", "members"])
@pytest.mark.parametrize("roots_apart", [True, False])
def test_a_norm_at_the_end_of_linear_terms(roots_apart: bool, domain: str) -> None:
    dense = Dense("ego:1", domain)
    terms = ["own", "readout", "needle"]
    check(
        randomised(SubgraphConv(3, WIDTH, terms, ["own", "readout"] if roots_apart else None, transform="linear", domain=domain)),
        dense,
    )


def test_gnn_ak_plus() -> None:
    """The norms of transforms before pooling range over members, the one at the end over nodes."""
    dense = Dense("ego:1", "members")
    bag, hops = dense.bag, dense.bag.hops(1)
    how = {"combine": "linear", "aggregation": "mean", "end_norm": True, "end_act": True}
    layer = randomised(AKConv(3, WIDTH, context=True, plus=1, domain="members", **how))
    x = dense.h + layer.distance(hops)
    inner = layer.inner[0](x, bag)
    for module in layer.inner.modules():  # its norms were checked above; back to the start
        if isinstance(module, BatchNorm):
            module.reset_running_stats()
    parts = []
    for p, (scope, rows) in enumerate([("node", dense.roots), ("subgraph", dense.kept), ("node", dense.kept)]):
        value = mlp(layer.before[p], inner, dense.kept) * layer.gates[p](hops).sigmoid() * rows[:, None]
        into = dense.spread[scope].t()
        parts.append(into @ value / (into @ rows.double()[:, None]))
    out = layer.mix(torch.cat(parts, dim=1))
    out = normed(layer.norm, out, torch.ones(len(out), dtype=torch.bool)).relu()
    torch.testing.assert_close(layer(dense.h, bag), out[bag.node], atol=1e-9, rtol=1e-9)
    for norm in (layer.norm, *(before.norm for before in layer.before)):
        torch.testing.assert_close((norm.running_mean, norm.running_var), norm.expected, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("rows", [[0, 2, 3, 5], [4], []])
def test_a_mask_is_as_good_as_rows(rows: list[int]) -> None:
    """Truth values for padded bags: the same outputs, gradients and running statistics as with the rows themselves."""
    rng = torch.Generator().manual_seed(0)
    x, mask = torch.randn(6, 3, dtype=torch.float64, generator=rng), torch.zeros(6, dtype=torch.bool)
    mask[rows] = True
    found = []
    for chosen in (mask, torch.tensor(rows, dtype=torch.long)):
        norm, values = BatchNorm(3).double(), x.clone().requires_grad_()
        with torch.no_grad():
            for value, start in ((norm.weight, 2.0), (norm.bias, 0.3), (norm.running_mean, 0.5), (norm.running_var, 4.0)):
                value.fill_(start)
        out = normalise(norm, values, chosen)
        (out * torch.arange(18).view(6, 3)).sum().backward()
        found.append([out.detach(), values.grad, norm.running_mean, norm.running_var])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=1e-12)


def test_a_single_row_is_normalised_with_the_running_statistics() -> None:
    norm = BatchNorm(2).double()
    with torch.no_grad():
        norm.weight.copy_(torch.tensor([2.0, 3.0]))
        norm.bias.copy_(torch.tensor([0.5, -1.0]))
        norm.running_mean.copy_(torch.tensor([1.0, -2.0]))
        norm.running_var.copy_(torch.tensor([4.0, 9.0]))
    x = torch.tensor([[5.0, 4.0]], dtype=torch.float64)
    expected = torch.tensor([[2 * (5 - 1) / (4 + 1e-5) ** 0.5 + 0.5, 3 * (4 + 2) / (9 + 1e-5) ** 0.5 - 1]], dtype=torch.float64)
    for mode in (True, False):
        torch.testing.assert_close(norm.train(mode)(x), expected)
    assert norm.running_mean.tolist() == [1, -2]
    assert norm.num_batches_tracked == 0
