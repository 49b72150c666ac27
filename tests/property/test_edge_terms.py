"""Edge features in all terms that sum along edges: messages relu(x + e), against dense sums; forward and gradients, in float64."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch

import reign
from model_inputs import randomised
from reign.nn import REIGN2_OFF, REIGN2_ON, TERMS, ReIGN2, ReIGN2Conv, State
from reign.testing import random_graphs

Dense = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def m(values: Tensor, edges: Tensor) -> Tensor:
    """Messages: the last two axes are node and channel."""
    return (values + edges).relu()


def local(X: Tensor, B: Tensor, E: Tensor) -> Tensor:
    """L[k, i] = sum_{j ~_k i} relu(x[k, j] + e[i, j]); with A[None] for B along the edges of the graph."""
    return torch.einsum("kij,kijd->kid", B.expand(X.size(0), -1, -1), m(X[:, None], E))


def over_all(X: Tensor, values: Tensor) -> Tensor:
    """Values of nodes in every subgraph."""
    return values[None].expand(X.shape)


def roots(X: Tensor) -> Tensor:
    return X.diagonal().t()


# for the target (k, i): X[k, i] are the values, A[i, j] and B[k, i, j] the edges from j to i, and E[i, j] their features
OFF: dict[str, Dense] = {
    "local": lambda X, A, B, E: local(X, B, E),
    "needle@Ak": lambda X, A, B, E: torch.einsum("kih,ihd->kid", B, m(X.transpose(0, 1), E)),
    "node_readout@Ak": lambda X, A, B, E: torch.einsum("kih,ihd->kid", B, m(X, E)),
    "root_needle@Ak": lambda X, A, B, E: torch.einsum("kih,kihd->kid", B, m(X.transpose(0, 1)[:, None], E)),
    "roots@Ak": lambda X, A, B, E: torch.einsum("kij,ijd->kid", B, m(roots(X)[None], E)),
    "non_roots@Ak": lambda X, A, B, E: torch.einsum("kih,ihd->kid", B, m(local(X, B, E).transpose(0, 1), E)),
    "readout@A": lambda X, A, B, E: local(X, A[None], E),
    "needle@A": lambda X, A, B, E: over_all(X, torch.einsum("ih,ihd->id", A, m(X.transpose(0, 1), E))),
    "node_readout@A": lambda X, A, B, E: over_all(X, torch.einsum("ih,ihd->id", A, m(X, E))),
    "root_needle@A": lambda X, A, B, E: torch.einsum("ih,kihd->kid", A, m(X.transpose(0, 1)[:, None], E)),
    "roots@A": lambda X, A, B, E: over_all(X, torch.einsum("ij,ijd->id", A, m(roots(X)[None], E))),
    "non_roots@A": lambda X, A, B, E: over_all(X, torch.einsum("ih,ihd->id", A, m(local(X, A[None], E).transpose(0, 1), E))),
    "needle_msg": lambda X, A, B, E: over_all(X, torch.einsum("ij,ijd->id", A, m(X.sum(0)[None], E))),
    "needle_msg@agg": lambda X, A, B, E: over_all(X, torch.einsum("gij,ijd->id", B, m(X.sum(0)[None], E))),
    "swap_local": lambda X, A, B, E: torch.einsum("kh,khid->kid", A, m(X[None], E[:, :, None])),
    "needle@Ai": lambda X, A, B, E: over_all(X, torch.einsum("iih,ihd->id", B, m(X.transpose(0, 1), E))),
    "swap_local@Ai": lambda X, A, B, E: torch.einsum("ikh,khid->kid", B, m(X[None], E[:, :, None])),
    "root_msg": lambda X, A, B, E: torch.einsum("kik,kid->kid", B, m(roots(X)[:, None], E.transpose(0, 1))),
}
OFF["local_others"] = lambda X, A, B, E: OFF["local"](X, A, B, E) - OFF["root_msg"](X, A, B, E)
ON: dict[str, Dense] = {
    "non_roots@Ak": lambda X, A, B, E: torch.einsum("iih,ihd->id", B, m(roots(local(X, B, E))[None], E)),
    "non_roots@A": lambda X, A, B, E: torch.einsum("ih,ihd->id", A, m(roots(local(X, A[None], E))[None], E)),
}


class Setting:
    """Three graphs with three features of each edge, a bag of them, and the same as dense tensors for each graph."""

    def __init__(self, policy: str, domain: str = "all") -> None:
        self.graphs = random_graphs(3, min_nodes=4, max_nodes=6, edge_prob=0.5, edge_dim=3, dtype=torch.float64, seed=6)
        self.batch = Batch.from_data_list(self.graphs)
        self.bag = reign.policy(policy).from_data(self.batch)
        rng = torch.Generator().manual_seed(0)
        self.h = torch.randn(self.bag.num_pairs, 2, dtype=torch.float64, generator=rng).requires_grad_()
        self.member = self.bag.member[:, None] if domain == "members" else torch.ones_like(self.h[:, :1])

    def dense(self, h: Tensor, edges: Tensor) -> list[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """X, A, B and E of each graph."""
        found, start = [], 0
        for g, graph in enumerate(self.graphs):
            one, n = self.bag[g], int(graph.num_nodes)
            X = (h * self.member)[self.bag.pair_batch == g].view(n, n, -1)
            A, E = torch.zeros(n, n, dtype=torch.float64), torch.zeros(n, n, edges.size(1), dtype=torch.float64)
            target = graph.edge_index[1], graph.edge_index[0]
            A[target] = 1
            found.append((X, A, one.to_dense().A, E.index_put(target, edges[start : start + graph.num_edges])))
            start += graph.num_edges
        return found


def spread(name: str, value: Tensor, bag: reign.SubgraphBag) -> Tensor:
    return value[
        {"pair": torch.arange(bag.num_pairs), "subgraph": bag.sub, "node": bag.node, "graph": bag.pair_batch}[TERMS[name].scope]
    ]


def same(one: Tensor, other: Tensor, *leaves: Tensor) -> None:
    torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-10)
    weight = torch.randn(one.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for ours, theirs in zip(
        *(torch.autograd.grad((out * weight).sum(), leaves, retain_graph=True) for out in (one, other)), strict=True
    ):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def test_every_term_along_edges_has_a_formula_here() -> None:
    assert set(OFF) == {name for name, term in TERMS.items() if term.along_edges}
    assert {name for name in (*REIGN2_OFF, *REIGN2_ON) if "@" in name} <= {*OFF, "readout@Ak"}


@pytest.mark.parametrize(
    ("policy", "domain"), [("null", "all"), ("nd", "all"), ("ego:1", "all"), ("ego:1", "members"), ("ego+:2", "members")]
)
@pytest.mark.parametrize("name", OFF)
def test_term(name: str, policy: str, domain: str) -> None:
    here = Setting(policy, domain)
    edges = torch.randn(here.batch.num_edges, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    state = State(here.h, here.bag, domain).with_edges(edges)
    dense = here.dense(here.h, edges)
    if domain == "members":  # messages of pairs that are no members are left out
        dense = [
            (X.masked_fill(here.bag[g].to_dense().member.logical_not()[..., None], -1e300), *rest)
            for g, (X, *rest) in enumerate(dense)
        ]
    if "needle_msg" in name:
        dense = here.dense(here.h, edges)  # messages of sums over subgraphs, which every node has
    off = torch.cat([OFF[name](*tensors).flatten(0, 1) for tensors in dense])
    same(spread(name, state.get(TERMS[name]), here.bag) * here.member, off * here.member, here.h, edges)
    on = torch.cat([ON[name](*tensors) if name in ON else roots(OFF[name](*tensors)) for tensors in dense])
    same(state.get(TERMS[name], "on"), on, here.h, edges)


@pytest.mark.parametrize("where", ["off", "on"])
@pytest.mark.parametrize("name", OFF)
def test_compact_storage_equals_full_storage_with_a_mask(name: str, where: str) -> None:
    here = Setting("ego:2", "members")
    compact = reign.policy("ego:2").from_data(here.batch, domain="members")
    edges, rows = torch.randn(here.batch.num_edges, 2, dtype=torch.float64), here.bag.wiring.member_rows
    masked, stored = (
        State(h, bag, "members").with_edges(edges).get(TERMS[name], where)
        for h, bag in ((here.h, here.bag), (here.h[rows], compact))
    )
    torch.testing.assert_close(
        masked[rows] if TERMS[name].scope == "pair" and where == "off" else masked, stored, atol=1e-12, rtol=1e-12
    )


@pytest.mark.parametrize("name", OFF)
def test_an_edge_of_weight_0_carries_no_message(name: str) -> None:
    here = Setting("nm")
    gone, edges = torch.tensor([0, 5]), torch.randn(here.batch.num_edges, 2, dtype=torch.float64)
    weight = torch.ones(here.batch.num_edges, dtype=torch.float64).index_fill(0, gone, 0)
    less = here.batch.clone()
    kept = weight == 1
    less.edge_index, less.edge_attr = less.edge_index[:, kept], less.edge_attr[kept]
    without = State(here.h, reign.policy("nm").from_data(less)).with_edges(edges[kept]).get(TERMS[name])
    torch.testing.assert_close(State(here.h, here.bag.weighted(weight)).with_edges(edges).get(TERMS[name]), without)


@pytest.mark.parametrize("training", [False, True])
def test_the_whole_layer(training: bool) -> None:
    """All terms of the table, each with its own weights and its own encoder of edges; the norms of roots and other pairs are apart."""
    here = Setting("ego:1")
    layer = randomised(ReIGN2Conv(2, 4, edge_terms=True, edge_dim=3)).train(training)
    total = 0

    def values(on: bool) -> Tensor:
        out = torch.zeros(())
        for slot in layer.slots(on):
            if slot.edge_encoder is None:
                value = State(here.h, here.bag).spread(slot.term, "on" if on else "off")
            else:
                dense = here.dense(here.h, slot.edge_encoder(here.batch.edge_attr))
                name = slot.term.name
                of_roots = (ON[name](*t) if name in ON else roots(OFF[name](*t)) for t in dense)
                value = torch.cat(list(of_roots) if on else [OFF[name](*t).flatten(0, 1) for t in dense])
            out = out + slot.transform(value)
        return out

    def normed(norm: torch.nn.Module, x: Tensor, rows: Tensor) -> Tensor:
        mean, var = (x[rows].mean(0), x[rows].var(0, unbiased=False)) if training else (norm.running_mean, norm.running_var)
        return ((x - mean) / (var + norm.eps).sqrt() * norm.weight + norm.bias).relu()

    off, on = values(False), values(True)
    others = here.bag.wiring.off_mask.values
    expected = normed(layer.norm, off, others).index_copy(
        0, here.bag.root_row, normed(layer.root_norm, on, torch.ones(len(on), dtype=torch.bool))
    )
    same(layer(here.h, here.bag), expected, here.h, *layer.parameters())
    total = sum(slot.edge_encoder is not None for on in (False, True) for slot in layer.slots(on))
    assert total == sum(name.endswith(("@A", "@Ak")) for name in (*REIGN2_OFF, *REIGN2_ON)) == 20


def test_models_take_the_option_and_say_where_it_has_no_effect() -> None:
    here = Setting("ego+:3")
    model = ReIGN2(1, 4, 2, 1, edge_dim=3, edge_terms=True).double().eval()
    data = here.batch
    found = [model(data.x[:, :1], data.edge_index, attr, data.batch) for attr in (data.edge_attr, data.edge_attr + 1)]
    assert (found[0] - found[1]).abs().max() > 1e-6
    with pytest.raises(ValueError, match="edge features .* use edge_terms=True, or leave"):
        ReIGN2(1, 4, 2, 1, edge_dim=3)
    with pytest.raises(ValueError, match="edge_terms=True needs edge features .* without edge features"):
        ReIGN2(1, 4, 2, 1, edge_terms=True)
    with pytest.raises(ValueError, match="single terms that sum along edges, such as 'local', got .*'own'.* with edge features"):
        ReIGN2(1, 4, 2, 1, edge_terms=True, edge_dim=3, terms=["own"], root_terms=None)
    with pytest.raises(ValueError, match="exact tests cover only graphs without edge features"):
        reign.theory.model_colours([data[0]], model)
