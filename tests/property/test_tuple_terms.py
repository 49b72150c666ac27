"""Terms along the roots of tuples, sets and edges, against dense formulas on the tensor x[u, v, i]: slice by slice, and written out."""

from collections.abc import Iterator
from itertools import product

import pytest
import torch
from test_terms import OFF, graphs
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.nn import TERMS, State, SubgraphGNN, Term, term
from reign.nn._terms import SAME
from reign.testing import random_graphs

pytestmark = pytest.mark.usefixtures("signatures_unchecked")
FOLKLORE = ("folklore", "swap_folklore")
ALONG = [name for name in TERMS if name not in SAME]
LINEAR = [name for name in ALONG if name not in FOLKLORE]


def tensors(bag: reign.SubgraphBag, h: Tensor, data: list[Data]) -> Iterator[tuple[Tensor, ...]]:
    """For each graph X[roots..., i], A and B[roots..., i, j] with zeros where a subgraph is missing, and the subgraph at [roots...] (or -1)."""
    for g, graph in enumerate(data):
        one, n, rows = bag[g], graph.num_nodes, bag.pair_batch == g
        roots = one.anchor.size(1)
        values = h[rows].view(one.num_subgraphs, n, h.size(1))
        A = torch.zeros(n, n, dtype=h.dtype)
        A[graph.edge_index[1], graph.edge_index[0]] = 1
        X, B = torch.zeros(*[n] * (roots + 1), h.size(1), dtype=h.dtype), torch.zeros(*[n] * (roots + 2), dtype=h.dtype)
        at = torch.full([n] * roots, -1)
        for k, anchor in enumerate(one.anchor.tolist()):
            places = {tuple(anchor[o] for o in order) for order in ([0, 1], [1, 0])} if bag.policy.unordered else {tuple(anchor)}
            for place in places:
                at[place] = k
        known = at >= 0
        X = X.index_put(known.nonzero().unbind(1), values[at[known]])
        B[known] = one.to_dense().A[at[known]].to(h.dtype)
        M = torch.zeros(*[n] * (roots + 1), dtype=h.dtype)
        M[known] = one.to_dense().member[at[known]].to(h.dtype)
        yield X, A, B, M, at


def dense(name: str, place: str, bag: reign.SubgraphBag, h: Tensor, data: list[Data]) -> Tensor:
    """The term by its formula for one subgraph per node, in every slice. Along all roots it is the sum of those along each."""
    parts = []
    for X, A, B, M, at in tensors(bag, h, data):
        n, roots = len(A), at.dim()
        out = torch.zeros_like(X)
        for r in range(roots) if place == "*" else [int(place) - 1]:
            for fixed in product(range(n), repeat=roots - 1):
                cut = (*fixed[:r], slice(None), *fixed[r:])
                there = torch.zeros_like(out)
                there[cut] = OFF[name](X[cut], A, B[cut], M[cut])
                out = out + there
        parts.append(out[bag[len(parts)].anchor.unbind(1)].flatten(0, 1))
    return torch.cat(parts)


def spread(of: Term, value: Tensor, bag: reign.SubgraphBag) -> Tensor:
    return value[bag.sub] if of.scope == "subgraph" else value


def check(name: str, place: str, policy: str, domain: str, data: list[Data]) -> None:
    bag = reign.policy(policy).from_data(Batch.from_data_list(data))
    torch.manual_seed(0)
    h = torch.randn(bag.num_pairs, 2, dtype=torch.float64, requires_grad=True)
    member = bag.member[:, None] if domain == "members" else torch.ones(bag.num_pairs, 1, dtype=torch.bool)
    of = term(f"{name}:{place}")
    ours = spread(of, State(h, bag, domain).get(of), bag) * member  # type: ignore[arg-type]
    expected = dense(name, place, bag, h * member, data) * member
    torch.testing.assert_close(ours, expected, atol=1e-11, rtol=1e-11)
    weight = torch.randn_like(ours)
    one, other = (torch.autograd.grad((value * weight).sum(), h)[0] for value in (ours, expected))
    torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("place", ["1", "2", "*"])
@pytest.mark.parametrize("name", ALONG)
def test_along_the_roots_of_pairs(name: str, place: str) -> None:
    for policy, domain in (("2-nm", "all"), ("2-nd", "all"), ("2-ego+:1", "all"), ("2-ego:1", "members")):
        check(name, place, policy, domain, graphs())


@pytest.mark.parametrize("name", LINEAR)
def test_along_the_roots_of_sets_and_edges(name: str) -> None:
    for policy, domain in (("2-set-nm", "all"), ("2-set-nd", "all"), ("2-set-ego:1", "members"), ("ed", "all")):
        check(name, "*", policy, domain, graphs())


@pytest.mark.parametrize("name", ["transpose", "needle", "root", "roots@Ak", "non_roots@A", "swap_local", "folklore"])
def test_along_the_roots_of_triples(name: str) -> None:
    for place in "123*":
        check(name, place, "3-ego:1", "all", random_graphs(3, max_nodes=4, edge_prob=0.5, dtype=torch.float64, seed=3))


WRITTEN = {  # X[u, v, i], A and B[u, v, i, j]: x[u,v,i] of pairs (u, v) written out, without slices
    "root:1": ("uvud,i->uvid", "X1"), "root:2": ("uvvd,i->uvid", "X1"),
    "node_root:1": ("ivid,u->uvid", "X1"), "node_root:2": ("uiid,v->uvid", "X1"),
    "transpose:1": ("ivud->uvid", "X"), "transpose:2": ("uivd->uvid", "X"),
    "needle:1": ("hvid,u->uvid", "X1"), "needle:2": ("uhid,v->uvid", "X1"), "needle": ("hgid,u,v->uvid", "X11"),
    "swap_local:1": ("uh,hvid->uvid", "AX"), "swap_local:2": ("vh,uhid->uvid", "AX"),
    "node_readout@Ak:2": ("uvih,uihd->uvid", "BX"), "root_needle@A:1": ("ih,hvud->uvid", "AX"),
    "roots:2": ("ujjd,v,i->uvid", "X11"), "needle_msg:1": ("ij,hvjd,u->uvid", "AX1"), "total:2": ("uhjd,v,i->uvid", "X11"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_terms_of_pairs_written_out(name: str) -> None:
    (graph,) = random_graphs(1, min_nodes=5, max_nodes=5, edge_prob=0.6, dtype=torch.float64, seed=7)
    bag = reign.policy("2-ego:1").from_data(graph)
    h = torch.randn(bag.num_pairs, 2, dtype=torch.float64)
    ((X, A, B, *_),) = tensors(bag, h, [graph])
    formula, letters = WRITTEN[name]
    given = {"X": X, "A": A, "B": B, "1": torch.ones(5, dtype=X.dtype)}
    of = term(name)
    value = State(h, bag).get(of)
    ours = value[bag.node] if of.scope == "node" else spread(of, value, bag)
    torch.testing.assert_close(ours.view(X.shape), torch.einsum(formula, *(given[a] for a in letters)))


@pytest.mark.parametrize("policy", ["2-ego:1", "2-set-ego+:1"])
def test_compact_storage_equals_full_storage_with_a_mask(policy: str) -> None:
    batch = Batch.from_data_list(graphs())
    full, compact = (reign.policy(policy).from_data(batch, domain=d) for d in ("all", "members"))  # type: ignore[arg-type]
    h = torch.randn(full.num_pairs, 2, dtype=torch.float64)
    rows = full.wiring.member_rows
    for name in LINEAR:
        of = term(f"{name}:*")
        for how in ({}, {of.name: "mean"}):
            masked, stored = State(h, full, "members", how).get(of), State(h[rows], compact, "members", how).get(of)  # type: ignore[arg-type]
            torch.testing.assert_close(masked[rows] if of.scope == "pair" else masked, stored, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("policy", ["2-nm", "2-set-nm", "2-ego:1"])
def test_means_count_the_subgraphs_that_exist(policy: str) -> None:
    (graph,) = random_graphs(1, min_nodes=5, max_nodes=5, edge_prob=0.6, dtype=torch.float64, seed=7)
    bag = reign.policy(policy).from_data(graph)
    ones = torch.ones(bag.num_pairs, 1, dtype=torch.float64)
    for name in LINEAR:
        of = term(f"{name}:*")
        mean = State(ones, bag, "all", {of.name: "mean"}).get(of)
        assert ((mean - 1).abs() < 1e-12).logical_or(mean == 0).all(), name
    count = State(ones, bag).get(term("needle:*"))
    assert count.unique().tolist() == [{"2-set-nm": 8.0}.get(policy, 10.0)]  # 2 roots, and 4 or 5 nodes in the place of each
    passed = State(ones, bag, "all", {"needle:*": "mean"}).get(term("needle_msg:*"))
    torch.testing.assert_close(passed, 2 * State(ones, bag).get(term("readout@A")))


@pytest.mark.parametrize("name", ALONG)
def test_one_root_is_the_first(name: str) -> None:
    bag = reign.policy("ego+:1").from_data(Batch.from_data_list(graphs()))
    state = State(torch.randn(bag.num_pairs, 2, dtype=torch.float64), bag)
    for where in ("off", "on"):
        plain = state.spread(TERMS[name], where)
        for place in "1*":
            assert torch.equal(state.spread(term(f"{name}:{place}"), where), plain)


def test_terms_that_a_bag_does_not_allow() -> None:
    graph = random_graphs(1, min_nodes=4, edge_prob=0.6, seed=1)[0]
    for name, policy, message in (
        ("needle:3", "2-nm", "term 'needle:3' needs subgraphs with 3 roots, but those of policy '2-nm' have 2; use '3-nm'"),
        ("root:*", "whole", "term 'root:.' needs subgraphs with a root, but those of policy 'whole' have 0"),
        ("root:2", "nm", "term 'root:2' needs subgraphs with 2 roots, but those of policy 'nm' have 1; use '2-nm'"),
        (
            "root:1",
            "2-set-nm",
            "needs roots in an order, but those of policy '2-set-nm' have none; use ':.', the sum over all roots",
        ),
        ("root:1", "ed", "needs roots in an order, but those of policy 'ed' have none"),
        ("root:1", "2-nm@3", "needs all subgraphs, but policy '2-nm@3' with 3 subgraphs leaves some out"),
        ("folklore:*", "2-set-nm", "needs a subgraph for each tuple of nodes, which policy '2-set-nm' does not make"),
        ("transpose", "2-nm", "term 'transpose' needs one subgraph per node, .*; use 'transpose:1'"),
        ("root", "2-nm", "has 2 anchors, expected one root; .* 'root:1' or 'root:."),
    ):
        bag = reign.policy(policy).from_data(graph)
        with pytest.raises(ValueError, match=message):
            State(torch.randn(bag.num_pairs, 2), bag).get(term(name))
    bag = reign.policy("nm")(graph.x, graph.edge_index, roots=torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="needs all subgraphs, but policy 'nm' with 2 subgraphs leaves some out"):
        State(torch.randn(bag.num_pairs, 2), bag).get(term("root:1"))
    for name, message in (
        ("root:0", "ends in ':0', expected the place of a root, as in 'root:1', or 'root:.' for all roots"),
        ("root:12", "ends in ':12'"),
        ("own:1", "'own:1' does not depend on a root; write 'own'"),
        ("rot:1", "unknown term 'rot'; did you mean 'root'"),
    ):
        with pytest.raises(ValueError, match=message):
            term(name)
    with pytest.raises(ValueError, match="expected one root"):
        SubgraphGNN(3, 4, 1, terms=["own"], root_terms=["own", "root:1"], policy="2-nm")(graph.x, graph.edge_index)


def test_weights_of_edges_reach_the_slices() -> None:
    graph = random_graphs(1, min_nodes=5, edge_prob=0.7, dtype=torch.float64, seed=1)[0]
    plain = reign.policy("2-nm").from_data(graph)
    h = torch.randn(plain.num_pairs, 2, dtype=torch.float64)
    without = Data(x=graph.x, edge_index=graph.edge_index[:, 4:])
    weight = torch.cat([torch.zeros(4), torch.ones(graph.num_edges - 4)]).double()
    for name in ("needle@A:1", "roots@Ak:2", "swap_local:*"):
        ours = State(h, plain.weighted(weight)).get(term(name))
        torch.testing.assert_close(ours, State(h, reign.policy("2-nm").from_data(without)).get(term(name)))


@pytest.mark.parametrize("policy", ["nm", "ego:1"])
@pytest.mark.parametrize("name", ["needle_msg", "needle_msg@agg"])
def test_means_of_means_along_the_only_root(name: str, policy: str) -> None:
    bag = reign.policy(policy).from_data(Batch.from_data_list(graphs()))
    h = torch.randn(bag.num_pairs, 2, dtype=torch.float64)
    plain = State(h, bag, "all", {"needle": "mean", name: "mean"})
    along = State(h, bag, "all", {"needle:1": "mean", f"{name}:1": "mean"})
    torch.testing.assert_close(along.spread(term(f"{name}:1")), plain.spread(term(name)))


def test_facts_of_terms_along_roots() -> None:
    """Those that stay inside need all subgraphs nevertheless, and products of pairs have no messages with edge features."""
    options = {"policy": "ego+:2", "domain": "members", "task_level": "node"}
    models = [SubgraphGNN(3, 4, 1, 1, terms=["own", "local", name], **options) for name in ("root", "root:1")]
    assert [model.needs_every_root for model in models] == [False, True]
    assert [term(name).along_edges for name in ("folklore", "folklore:1", "needle@A:1")] == [False, False, True]


def test_models_along_roots_have_no_batches_of_fixed_sizes() -> None:
    models = [reign.build_model("tuplesun", 3, 4, 1, 1, policy=policy) for policy in ("2-nm", "central:2", "nm")]
    assert [model.along_roots for model in models] == [True, True, False]
