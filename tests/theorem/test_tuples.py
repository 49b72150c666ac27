"""The paper's conjecture that policies of k nodes are bounded by (k + 2)-WL, and what such policies tell apart, by colour tests."""

from functools import cache
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data

from reign.nn import REIGN2_OFF, SubgraphGNN, term, tuple_reign2_terms, tuple_sun_terms
from reign.theory import Pair, colours, family, list_families, separate, wl_separates
from reign.theory._questions import TUPLE_MODELS, TUPLE_POLICIES, conjecture

pytestmark = pytest.mark.usefixtures("signatures_unchecked")
EQUAL = {1: ("K4", "K3,3"), 2: ("K5",)}  # bases of treewidth k + 2, so that (k + 2)-WL does not tell their CFI graphs apart


@cache
def equal(k: int) -> list[Pair]:
    found = [pair for pair in family("cfi") if pair.name[4:-1] in EQUAL[k]]
    return [*found, *family("rook")] if k == 1 else found


def told_apart(method: str, pairs: list[Pair]) -> list[str]:
    return [v.pair for v in separate(pairs, wl=[method]) if v.separated]


def test_which_pairs_are_equal() -> None:
    for k, pairs in ((1, equal(1)), (2, equal(2))):
        assert pairs
        assert not any(wl_separates(pair.one, pair.other, k + 2) for pair in pairs)
    assert all(wl_separates(pair.one, pair.other, 4) for pair in equal(1))


@pytest.mark.parametrize("model", TUPLE_MODELS)
def test_no_policy_of_one_node_goes_beyond_3_wl(model: str) -> None:
    assert {policy: told_apart(f"{model}:{policy}", equal(1)) for policy in TUPLE_POLICIES[1]} == {p: [] for p in TUPLE_POLICIES[1]}


FAST = ("2-nm", "2-set-nd")


@pytest.mark.parametrize("model", TUPLE_MODELS)
@pytest.mark.parametrize("policy", [p if p in FAST else pytest.param(p, marks=pytest.mark.slow) for p in TUPLE_POLICIES[2]])
def test_no_policy_of_two_nodes_goes_beyond_4_wl(policy: str, model: str) -> None:
    assert told_apart(f"{model}:{policy}", equal(2)) == []


@pytest.mark.parametrize("model", TUPLE_MODELS)
def test_policies_of_two_nodes_go_beyond_3_wl(model: str) -> None:
    """Those that mark or delete nodes tell apart all of these pairs, which no policy of one node does; without marks, SUN does by its roots."""
    for policy in ("2-nm", "2-nd", "2-set-nm", "2-set-nd"):
        assert len(told_apart(f"{model}:{policy}", equal(1))) == 3, policy
    assert len(told_apart(f"{model}:2-null", equal(1))) == (3 if model.startswith("tuple") else 0)


def test_a_policy_of_three_nodes_goes_beyond_4_wl() -> None:
    """Three marked nodes: with K5 as the base, as many as its treewidth less one."""
    (pair,) = equal(2)
    assert told_apart("ds:3-set-nm", [pair]) == [pair.name]


@pytest.mark.parametrize(("model", "along"), [("sun", "tuplesun"), ("reign2", "tuplereign2")])
def test_with_one_root_they_are_sun_and_reign2(model: str, along: str) -> None:
    pairs = [pair for name in ("triangles", "decalin", "regular", "cfi") for pair in family(name) if pair.one.num_nodes <= 40]
    for policy in ("null", "nd", "nm", "ego:1", "ego+:2"):
        assert told_apart(f"{along}:{policy}", pairs) == told_apart(f"{model}:{policy}", pairs), policy


def test_the_terms_of_models_along_roots() -> None:
    ordered, sets, single = (tuple_sun_terms(2), tuple_sun_terms(3, ordered=False), tuple_sun_terms(1))
    assert [name for name in ordered if name.endswith(":2")] == ["own_root:2", "root:2", "node_root:2", "needle:2", "needle_msg:2"]
    assert [name for name in sets if ":" in name] == ["own_root:*", "root:*", "node_root:*", "needle:*", "needle_msg:*"]
    assert single == ["own", "readout", "own+local", "needle+needle_msg", "own_root:1", "root:1", "node_root:1"]
    table = {term(name.partition(":")[0]).name for name in tuple_reign2_terms(2)}
    assert {term(name).name for name in REIGN2_OFF} <= table
    assert len(tuple_reign2_terms(3)) - len(tuple_reign2_terms(2)) == 20  # the table but for own, local and readout@A, and own_root


def test_any_list_of_terms_can_be_tested() -> None:
    """Without marks, own_root tells the roots apart; root:* spreads what they see, and needle:* alone sees nothing of them."""
    (pair,) = family("rook")
    graphs = [pair.one, pair.other]
    for terms, told in ((["own", "local"], False), (["own", "local", "needle:*"], False), (["own", "local", "own_root:*"], True)):
        assert (colours(graphs, terms, policy="2-set-null").separated(0, 1) is not None) == told, terms
    model = SubgraphGNN(1, 8, 4, 4, terms=["own+local", "own_root:1", "own_root:2"], policy="2-null", norm=None)
    (exact,) = separate([pair], [model], act=None)
    assert exact.separated


def test_work_that_does_not_fit_is_refused_before_it_starts() -> None:
    graph = Data(
        x=torch.ones(400, 1), edge_index=torch.cat([torch.combinations(torch.arange(400)).t().flip(f) for f in ([], [0])], dim=1)
    )
    message = "policy '3-nm' makes 64,000,000 subgraphs of a graph of 400 nodes, with 10,214,400,000,000 messages .* about 2,042,880.0 GB or more"
    with pytest.raises(ValueError, match=message):
        separate([Pair("complete", graph, graph)], wl=["ds:3-nm"])


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 2])
def test_the_table_of_the_documentation(k: int, real_data: Path) -> None:
    pairs = [p for name in list_families() if name not in ("csl", "exp", "cexp") for p in family(name) if p.one.num_nodes <= 40]
    page = (Path(__file__).parents[2] / "docs/questions.md").read_text()
    for line in conjecture(pairs, TUPLE_POLICIES[k][::3], k).splitlines():
        assert line in page
