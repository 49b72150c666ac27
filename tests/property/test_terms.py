"""Every term against a plain dense formula written from the paper, forward and gradient, in float64."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

import reign
from reign.nn import TERMS, State, Term
from reign.testing import random_graphs

Dense = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def einsum(formula: str, *args: str) -> Dense:
    """A sum over the tensors X (k, i), D (roots x[i,i]), A of the graph and B of the subgraphs, all [target, source], and M (i in V^k)."""

    def evaluate(X: Tensor, A: Tensor, B: Tensor, M: Tensor) -> Tensor:
        n = min(X.shape[:2])
        D = X[torch.arange(n), torch.arange(n)]
        tensors = {"X": X, "A": A, "B": B, "D": D, "M": M, "1": torch.ones(X.size(1), dtype=X.dtype)}
        tensors["S"] = torch.ones(X.size(0), dtype=X.dtype)
        return torch.einsum(formula, *(tensors[a] for a in args))

    return evaluate


# off the diagonal: target (k, i); missing letters are broadcast by "1" (nodes) and "S" (subgraphs)
OFF: dict[str, Dense] = {
    "own": einsum("kid->kid", "X"),
    "transpose": einsum("ikd->kid", "X"),
    "root": einsum("kd,i->kid", "D", "1"),
    "node_root": einsum("id,k->kid", "D", "S"),
    "readout": einsum("kjd,i->kid", "X", "1"),
    "needle": einsum("hid,k->kid", "X", "S"),
    "node_readout": einsum("ihd,k->kid", "X", "S"),
    "root_needle": einsum("hkd,i->kid", "X", "1"),
    "roots": einsum("jd,k,i->kid", "D", "S", "1"),
    "total": einsum("hjd,k,i->kid", "X", "S", "1"),
    "local": einsum("kij,kjd->kid", "B", "X"),
    "needle@Ak": einsum("kih,hid->kid", "B", "X"),
    "node_readout@Ak": einsum("kih,ihd->kid", "B", "X"),
    "root_needle@Ak": einsum("kih,hkd->kid", "B", "X"),
    "roots@Ak": einsum("kij,jd->kid", "B", "D"),
    "non_roots@Ak": einsum("kih,hij,hjd->kid", "B", "B", "X"),
    "readout@A": einsum("ij,kjd->kid", "A", "X"),
    "needle@A": einsum("ih,hid,k->kid", "A", "X", "S"),
    "node_readout@A": einsum("ih,ihd,k->kid", "A", "X", "S"),
    "root_needle@A": einsum("ih,hkd->kid", "A", "X"),
    "roots@A": einsum("ij,jd,k->kid", "A", "D", "S"),
    "non_roots@A": einsum("ih,ij,hjd,k->kid", "A", "A", "X", "S"),
    "needle_msg": einsum("ij,hjd,k->kid", "A", "X", "S"),
    "needle_msg@agg": einsum("gij,hjd,k->kid", "B", "X", "S"),
    "swap_local": einsum("kh,hid->kid", "A", "X"),
    "readout@Vk": einsum("kj,kjd,i->kid", "M", "X", "1"),
    "needle@Ai": einsum("iih,hid,k->kid", "B", "X", "S"),
    "swap_local@Ai": einsum("ikh,hid->kid", "B", "X"),
    "folklore": einsum("ij,kjd,jid->kid", "A", "X", "X"),
    "swap_folklore": einsum("kj,kjd,jid->kid", "A", "X", "X"),
    "root_msg": einsum("kik,kd->kid", "B", "D"),
}
OFF["own_root"] = lambda X, A, B, M: X * torch.eye(*X.shape[:2], dtype=X.dtype)[:, :, None]
OFF["local_others"] = lambda X, A, B, M: OFF["local"](X, A, B, M) - OFF["root_msg"](X, A, B, M)
for _name, _diagonal in (("readout", "root"), ("needle", "node_root"), ("node_readout", "node_root"), ("root_needle", "root")):
    OFF[f"{_name}_strict"] = lambda X, A, B, M, name=_name, diagonal=_diagonal: OFF[name](X, A, B, M) - OFF[diagonal](X, A, B, M)
OFF["non_roots"] = lambda X, A, B, M: OFF["total"](X, A, B, M) - OFF["roots"](X, A, B, M)
# on the diagonal: target (i, i), where that is not the same formula with k = i
ON: dict[str, Dense] = {
    "non_roots@Ak": einsum("iih,hhj,hjd->id", "B", "B", "X"),
    "non_roots@A": einsum("ih,hj,hjd->id", "A", "A", "X"),
}
NO_BIJECTION = [name for name, term in TERMS.items() if not term.node_based]
NO_ROOTS = [n for n in NO_BIJECTION if n not in ("root", "own_root", "readout_strict", "root_msg", "local_others")]


def graphs(self_loops: bool = False) -> list[Data]:
    made = random_graphs(4, max_nodes=6, edge_prob=0.5, dtype=torch.float64, seed=5)
    made += random_graphs(1, min_nodes=1, max_nodes=1, dtype=torch.float64)
    if self_loops:  # and directed and parallel edges
        for data in made:
            data.edge_index = torch.cat([data.edge_index[:, ::2], torch.zeros(2, 2, dtype=torch.long)], dim=1)
    return made


def spread(term: Term, value: Tensor, bag: reign.SubgraphBag) -> Tensor:
    return value[{"pair": torch.arange(bag.num_pairs), "subgraph": bag.sub, "node": bag.node, "graph": bag.pair_batch}[term.scope]]


def check(name: str, policy: str, domain: str, data: list[Data], roots: bool = True) -> None:
    term, batch = TERMS[name], Batch.from_data_list(data)
    bag = reign.policy(policy).from_data(batch)
    torch.manual_seed(0)
    h = torch.randn(bag.num_pairs, 2, dtype=torch.float64, requires_grad=True)
    state = State(h, bag, domain)
    off = spread(term, state.get(term), bag)
    weight = torch.randn_like(off)
    member = bag.member[:, None] if domain == "members" else torch.ones(bag.num_pairs, 1, dtype=torch.bool)
    expected = []
    for g, graph in enumerate(data):
        one, mine = bag[g], bag.pair_batch == g
        X = (h * member)[mine].view(one.num_subgraphs, one.num_nodes, 2)
        A = torch.zeros(one.num_nodes, one.num_nodes, dtype=torch.float64)
        A.index_put_((graph.edge_index[1], graph.edge_index[0]), torch.ones(1, dtype=torch.float64), accumulate=True)
        dense = one.to_dense()
        expected.append((X, A, dense.A, dense.member.to(X.dtype)))
    dense = torch.cat([OFF[name](*tensors).flatten(0, 1) for tensors in expected])
    torch.testing.assert_close(off * member, dense * member, atol=1e-12, rtol=1e-12)
    _same_gradient(h, (off * weight * member).sum(), (dense * weight * member).sum())
    if roots:
        on = state.get(term, "on")
        at_roots = [ON[name](*t) if name in ON else OFF[name](*t).diagonal(dim1=0, dim2=1).t() for t in expected]
        dense = torch.cat(at_roots)
        torch.testing.assert_close(on, dense, atol=1e-12, rtol=1e-12)
        _same_gradient(h, (on * weight[: len(on)]).sum(), (dense * weight[: len(on)]).sum())


def _same_gradient(h: Tensor, one: Tensor, other: Tensor) -> None:
    ours, theirs = (torch.autograd.grad(v, h, retain_graph=True)[0] for v in (one, other))
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=1e-12)


def test_every_term_has_a_formula_here() -> None:
    assert set(OFF) == set(TERMS)


@pytest.mark.parametrize("policy", ["null", "nd", "nm", "ego:1", "ego+:2"])
@pytest.mark.parametrize("name", TERMS)
def test_term_on_all_pairs(name: str, policy: str) -> None:
    check(name, policy, "all", graphs())


@pytest.mark.parametrize("name", TERMS)
def test_term_with_directed_parallel_and_looping_edges(name: str) -> None:
    check(name, "ego:1", "all", graphs(self_loops=True))


@pytest.mark.parametrize("policy", ["null", "ego:1", "ego+:2"])
@pytest.mark.parametrize("name", TERMS)
def test_term_on_members(name: str, policy: str) -> None:
    check(name, policy, "members", graphs())


@pytest.mark.parametrize("policy", ["ed", "2-nm", "2-ego:1", "whole"])
@pytest.mark.parametrize("name", NO_ROOTS)
def test_term_without_a_bijection(name: str, policy: str) -> None:
    check(name, policy, "all", graphs(), roots=False)


@pytest.mark.parametrize("policy", ["null", "ego:1", "ego+:2"])
@pytest.mark.parametrize("where", ["off", "on"])
@pytest.mark.parametrize("name", TERMS)
def test_compact_storage_equals_full_storage_with_a_mask(name: str, where: str, policy: str) -> None:
    batch = Batch.from_data_list(graphs())
    term, full, compact = TERMS[name], *(reign.policy(policy).from_data(batch, domain=d) for d in ("all", "members"))
    h = torch.randn(full.num_pairs, 2, dtype=torch.float64, requires_grad=True)
    rows = full.wiring.member_rows
    masked, stored = (State(h, full, "members").get(term, where), State(h[rows], compact, "members").get(term, where))
    if term.scope == "pair" and where == "off":
        masked = masked[rows]
    torch.testing.assert_close(masked, stored, atol=1e-12, rtol=1e-12)
    weight = torch.randn_like(masked)
    _same_gradient(h, (masked * weight).sum(), (stored * weight).sum())


@pytest.mark.parametrize("name", [name for name in TERMS if name not in ("own", "transpose", "root", "node_root", "root_msg")])
def test_mean_is_the_sum_over_the_count(name: str) -> None:
    batch = Batch.from_data_list(graphs())
    bag = reign.policy("ego:1").from_data(batch)
    h = torch.randn(bag.num_pairs, 2, dtype=torch.float64)
    term = TERMS[name]
    for where, domain in product(("off", "on"), ("all", "members")):  # counts of both are kept with the bag
        total = State(h, bag, domain).get(term, where)
        count = State(torch.ones(bag.num_pairs, 1, dtype=torch.float64), bag, domain).get(term, where)
        mean = State(h, bag, domain, {name: "mean"}).get(term, where)
        torch.testing.assert_close(mean * count.clamp(min=1), total)
        assert (mean[(count == 0).flatten()] == 0).all()


def test_needle_messages_pass_the_mean_on() -> None:
    batch = Batch.from_data_list(graphs())
    bag = reign.policy("nm").from_data(batch)
    h = torch.randn(bag.num_pairs, 2, dtype=torch.float64)
    mean = State(h, bag, "all", {"needle": "mean"})
    expected = bag.wiring.nodes("nodes")(mean.get(TERMS["needle"]))
    assert torch.equal(mean.get(TERMS["needle_msg"]), expected)


@pytest.mark.parametrize("name", [name for name, term in TERMS.items() if term.node_based])
def test_terms_that_need_a_bijection_say_so(name: str) -> None:
    bag = reign.policy("ed").from_data(graphs()[0])
    with pytest.raises(ValueError, match=f"term '{name}' needs one subgraph per node, got .* policy 'ed' is not node-based"):
        State(torch.randn(bag.num_pairs, 2), bag).get(TERMS[name])


@pytest.mark.parametrize("storage", ["all", "members"])
def test_deleted_roots_have_no_terms_among_members(storage: str) -> None:
    bag = reign.policy("nd").from_data(graphs()[0], domain=storage)
    state = State(torch.randn(bag.num_pairs, 2), bag, "members")
    assert state.get(TERMS["readout"]).shape == (bag.num_subgraphs, 2)
    for name in ("root", "own_root", "node_root", "readout_strict", "roots"):
        with pytest.raises(ValueError, match="policy 'nd' with domain='members' leaves roots without a row"):
            state.get(TERMS[name])


def test_layer_of_all_pairs_refuses_a_bag_of_members() -> None:
    bag = reign.policy("ego:1").from_data(graphs()[0], domain="members")
    with pytest.raises(ValueError, match="the bag stores members only"):
        State(torch.randn(bag.num_pairs, 2), bag, "all")
    with pytest.raises(ValueError, match="h has 1 rows, expected one per pair"):
        State(torch.randn(1, 2), bag, "members")


def test_means_of_terms_that_are_made_of_others() -> None:
    batch = Batch.from_data_list(graphs())
    bag = reign.policy("nm").from_data(batch)
    ones = torch.ones(bag.num_pairs, 1, dtype=torch.float64)
    how = {
        "needle": "mean",
        "needle_msg": "mean",
        "readout@A": "mean",
        "non_roots@A": "mean",
        "local": "mean",
        "local_others": "mean",
    }
    for where in ("off", "on"):
        for name in how:
            mean = State(ones, bag, "all", how).get(TERMS[name], where)
            assert ((mean - 1).abs() < 1e-12).logical_or(mean == 0).all(), name
