"""The order of models, by exact tests on all families and on all graphs of up to 5 or 7 nodes."""

import os
from functools import cache
from itertools import pairwise

import networkx as nx
import pytest
from torch_geometric.data import Data

from reign.data import from_networkx
from reign.theory import Finding, Pair, family, list_families, relations, separate, small_graphs, survey, wl_separates
from reign.theory._questions import is_proven, order_table

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

POLICIES = ["null", "nd", "nm", "ego:1", "ego:2", "ego+:1", "ego+:2", "nm+distance", "ego+distance:2"]
MODELS = ["ds", "idgnn", "ngnn", "gnnak", "gnnakctx", "gnnakplus", "dss", "sun", "sswl", "reign2"]


@cache
def some_pairs(full: bool) -> list[Pair]:
    names = (
        list_families(generated=not os.environ.get("REIGN_DATA")) if full else ["triangles", "decalin", "rook", "regular", "cfi"]
    )
    pairs = [pair for name in names for pair in family(name)]
    return pairs if full else [pair for pair in pairs if pair.one.num_nodes <= 22]


@cache
def find(method: str | int, full: bool) -> Finding:
    return survey(method, some_pairs(full), small_graphs(7 if full else 5))


def at_most(weaker: str | int, stronger: str | int, full: bool) -> bool:
    return find(weaker, full).beyond(find(stronger, full)) is None


def check_orders(policy: str, full: bool) -> None:
    for weaker, stronger in pairwise(["ds", "dss", "sun", "reign2"]):
        assert at_most(f"{weaker}:{policy}", f"{stronger}:{policy}", full), (weaker, stronger)
    assert at_most(f"sswl:{policy}", f"reign2:{policy}", full)
    if policy in ("null", "nm", "nm+distance"):
        assert at_most(1, f"ds:{policy}", full)
    for model in MODELS if full else ("gnnakctx", "gnnakplus", "sswl", "reign2"):
        assert at_most(f"{model}:{policy}", 3, full), f"{model}:{policy} goes beyond 3-WL"


@pytest.mark.parametrize("policy", ["nm", "ego:2"])
def test_orders(policy: str) -> None:
    check_orders(policy, full=False)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
def test_orders_on_all_families(policy: str) -> None:
    check_orders(policy, full=True)


def told_apart(one: nx.Graph, other: nx.Graph, *methods: str) -> list[bool]:
    pair = Pair("pair", from_networkx(one), from_networkx(other))
    return [v.separated for v in separate([pair], wl=methods)]


def test_1_wl_is_not_below_ds_with_ego_nets_and_node_deletion() -> None:
    paths = [nx.disjoint_union(nx.path_graph(a), nx.path_graph(b)) for a, b in ((4, 6), (5, 5))]
    assert told_apart(*paths, "1", "ds:ego+:2", "ds:nm", "ds:null") == [True, False, True, True]
    edge, none = nx.complete_graph(2), nx.empty_graph(2)
    assert told_apart(edge, none, "1", "ds:nd", "ds:nm", "ds:null") == [True, False, True, True]


def test_6_cycles_need_ego_nets_of_depth_3() -> None:
    rings = [nx.disjoint_union(nx.cycle_graph(a), nx.cycle_graph(b)) for a, b in ((6, 8), (7, 7))]
    methods = [f"{model}:ego+:{depth}" for depth in (2, 3) for model in ("ds", "dss", "sun")]
    assert told_apart(*rings, *methods) == [False] * 3 + [True] * 3


def cfi_pair(name: str) -> Pair:
    return next(pair for pair in family("cfi") if pair.name == f"CFI({name})")


@pytest.mark.parametrize(
    ("base", "weak", "strong"),
    [
        ("C3-C3", ["ds", "idgnn"], ["ngnn", "gnnak"]),
        ("strip 2-C3", ["ds", "ngnn", "gnnak"], ["gnnakctx", "dss", "sun"]),
        ("C3-C3-C3", ["gnnak", "gnnakctx"], ["dss", "sun"]),
        ("ladder 4", ["dss", "sun", "gnnakctx"], ["sswl", "reign2"]),
        ("star 3: 1,1,1", ["sswl", "reign2"], []),
    ],
)
def test_strict_somewhere_with_node_marking(base: str, weak: list[str], strong: list[str]) -> None:
    """DS < GNN-AK < DSS < ReIGN(2) < 3-WL, each by a pair of CFI graphs."""
    pair = cfi_pair(base)
    verdicts = separate([pair], wl=[f"{model}:nm" for model in weak + strong])
    assert [v.separated for v in verdicts] == [False] * len(weak) + [True] * len(strong)
    assert wl_separates(pair.one, pair.other, 3)


def test_sun_and_sswl_are_incomparable_under_unmarked_ego_nets() -> None:
    csl = next(pair for pair in family("csl") if pair.name == "CSL 5 / 6")
    regular = next(pair for pair in family("regular") if pair.name == "4-regular, 9 nodes")
    verdicts = separate([csl, regular], wl=["sun:ego:2", "sswl:ego:2"])
    assert [v.separated for v in verdicts] == [False, True, True, False]


def test_reign_cannot_be_put_into_sun_and_transpose_gains() -> None:
    pairs = [cfi_pair(name) for name in ("strip 4", "ladder 4")]
    assert not any(v.separated for v in separate(pairs, wl=["sun:nm"]))
    assert all(v.separated for v in separate(pairs, wl=["reign2:nm"]))
    assert all(v.separated for v in separate(pairs, wl=["sun:nm"], transpose=True))


def finding(method: str, told: str, classes: tuple[int, ...] = ()) -> Finding:
    return Finding(method, {name: 1 if name in told else None for name in "abc"}, classes)


def test_relations_and_their_table() -> None:
    low, twin, left, right = finding("ds:nm", "a"), finding("idgnn:nm", "a"), finding("dss:nm", "ab"), finding("sun:nm", "ac")
    found = relations([right, low, left, twin])
    assert {(r.weaker, r.stronger, r.example, r.back) for r in found} == {
        (("ds:nm", "idgnn:nm"), ("sun:nm",), "c", None),
        (("ds:nm", "idgnn:nm"), ("dss:nm",), "b", None),
        (("sun:nm",), ("dss:nm",), "b", "c"),
    }
    table = order_table([right, low, left, twin])
    assert "| ds:nm, idgnn:nm | < | sun:nm | c |  | yes |" in table
    assert "| ds:nm, idgnn:nm | < | dss:nm | b |  | no |" in table
    assert "| sun:nm | incomparable | dss:nm | b | c |  |" in table
    assert is_proven("reign2:ego:2", "3-WL")
    assert not is_proven("reign2:ego:2", "sun:ego:2")
    assert not is_proven("ds:nm", "sun:null")
    assert not is_proven("ds:ed", "sun:ed")


def test_classes_of_small_graphs_count_as_examples() -> None:
    fine, coarse = finding("sun:nm", "", (0, 1, 2)), finding("ds:nm", "", (0, 1, 1))
    assert fine.beyond(coarse) == "small 1 / 2"
    assert coarse.beyond(fine) is None


def test_graphs_of_different_sizes_are_not_compared() -> None:
    graphs: list[Data] = [from_networkx(nx.cycle_graph(n)) for n in (4, 5, 5)]
    assert survey("mpnn", family("triangles"), graphs).classes == (0, 1, 1)
    assert survey(1, family("triangles"), graphs).classes == (0, 1, 1)
