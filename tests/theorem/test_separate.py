"""Which pairs models tell apart: what is proved, what is known, and what must not happen."""

from pathlib import Path
from typing import Any

import pytest
import torch

import reign
from reign.testing import permute_graph, random_permutation
from reign.theory import Pair, Verdict, colours, family, parse_method, separate, wl_separates

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

NODE_BASED = ["null", "nd", "nm", "ego:1", "ego:2", "ego+:1", "ego+:2", "nm+distance", "ego+distance:2"]
MODELS = ["sun", "reign2", "ds", "dss", "ngnn", "idgnn", "gnnak", "gnnakctx", "gnnakplus", "sswl"]


def count(verdicts: list[Verdict], method: str) -> int:
    return sum(v.separated for v in verdicts if v.method == method)


def test_csl() -> None:
    """All 45 pairs of classes; roots marked by hand, or by SUN itself; and not by those that cannot."""
    strong = ["ds:nm", "dss:nm", "sun:nm", "gnnak:nm/6", "idgnn:nm/10", "sun:null"]
    weak = ["dss:null", "mpnn", "gnnak:nm/1"]
    verdicts = separate(family("csl"), strong + weak, [1, 3], act=None)
    assert {method: count(verdicts, method) for method in strong} == dict.fromkeys(strong, 45)
    assert {method: count(verdicts, method) for method in weak} == dict.fromkeys(weak, 0)
    assert (count(verdicts, "1-WL"), count(verdicts, "3-WL")) == (0, 45)


def test_csl_in_float64() -> None:
    """The same by digits, in part: these margins are large."""
    verdicts = separate(family("csl")[::9], ["sun:nm", "dss:null"], exact=False)
    assert (count(verdicts, "sun:nm"), count(verdicts, "dss:null")) == (5, 0)


EXP = ["sun:nm/4", "sun:ego+:2/4", "dss:nm/4", "dss:ego+:2/4", "gnnak:nm/4", "gnnak:ego+:2/4"]


@pytest.mark.parametrize("method", EXP)
def test_exp_in_part(method: str, real_data: Path) -> None:
    pairs = family("exp")[::40]
    assert count(separate(pairs, [method], act=None), method) == len(pairs) == 15
    assert count(separate(pairs, ["mpnn"], act=None), "mpnn") == 0


@pytest.mark.slow
def test_exp(real_data: Path) -> None:
    pairs = family("exp")
    verdicts = separate(pairs, [*EXP, "mpnn"], [1], act=None)
    assert {method: count(verdicts, method) for method in EXP} == dict.fromkeys(EXP, 600)
    assert count(verdicts, "mpnn") == count(verdicts, "1-WL") == 0


def equal_under_3_wl() -> list[Pair]:
    """The rook's and the Shrikhande graph, and CFI pairs over bases of treewidth 3 and more."""
    names = {"K4", "K3,3", "cube", "wheel 5", "K5", "Petersen"}
    return [*family("rook"), *(p for p in family("cfi") if p.name[4:-1] in names)]


def test_what_is_equal_under_3_wl() -> None:
    assert [wl_separates(p.one, p.other, 3) for p in equal_under_3_wl()] == [False] * 7


@pytest.mark.parametrize("model", MODELS)
def test_no_model_goes_beyond_3_wl(model: str) -> None:
    """By colour tests, so for any number of layers and any weights."""
    pairs = [p for p in equal_under_3_wl() if p.one.num_nodes <= 24]
    assert not [v for v in separate(pairs, wl=[f"{model}:{policy}" for policy in NODE_BASED]) if v.separated]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_no_model_goes_beyond_3_wl_on_larger_pairs(model: str) -> None:
    assert not [v for v in separate(equal_under_3_wl(), wl=[f"{model}:{policy}" for policy in NODE_BASED]) if v.separated]


@pytest.mark.parametrize("model", MODELS)
def test_no_model_separates_strongly_regular_graphs(model: str, real_data: Path) -> None:
    pairs = family("sr")
    assert len(pairs) == 105
    assert not any(wl_separates(p.one, p.other, 3) for p in pairs[:14])
    assert not [v for v in separate(pairs, wl=[f"{model}:{policy}" for policy in NODE_BASED]) if v.separated]


@pytest.mark.parametrize(
    "terms", [["needle_msg"], ["needle_msg@agg"], ["swap_local"], ["root_msg", "local_others"], ["non_roots@Ak", "root_needle@A"]]
)
def test_terms_beyond_the_table_are_bounded_too(terms: list[str]) -> None:
    pairs = [p for p in equal_under_3_wl() if p.one.num_nodes <= 24]
    for policy in ("nd", "nm", "ego:2"):
        for pair in pairs:
            found = colours([pair.one, pair.other], ["own", "local", *terms], ["own", "readout", *terms], policy=policy)
            assert found.separated(0, 1) is None


@pytest.mark.parametrize("name", ["ppgn/3", "ign2/3", "mpnn/3"])
def test_baselines_stay_within_their_bounds(name: str) -> None:
    assert not any(v.separated for v in separate(equal_under_3_wl(), [name], act=None))
    easy = family("triangles")
    assert separate(easy, [name])[0].separated == (name == "ppgn/3")


def test_policies_beyond_nodes_do_separate_the_rook_and_the_shrikhande_graph() -> None:
    verdicts = separate(family("rook"), ["ds:ed", "ds:2-nm", "ds:nm"], act=None)
    assert [v.separated for v in verdicts] == [True, True, False]


def test_noise_is_not_separation() -> None:
    """A graph and a permuted copy of itself: no margin is above 1, for any activation."""
    graph = family("regular")[0].one
    copy = permute_graph(graph, random_permutation(graph.num_nodes, seed=5))
    for act in ("silu", "sine"):
        verdicts = separate([Pair("copy", graph, copy)], ["sun:nm", "reign2:nm/3"], [1, 3], exact=False, act=act, seeds=(0, 1))
        assert not any(v.separated for v in verdicts)


def test_a_model_object_and_its_name_say_the_same() -> None:
    pairs = [p for p in family("cfi") if p.one.num_nodes <= 20]
    model = reign.nn.DSS(1, 16, 4, 1, policy="nm")
    named, given = separate(pairs, ["dss:nm/4"], act=None), separate(pairs, [model], act=None)
    assert [v.layer for v in named] == [v.layer for v in given]
    assert given[0].method == repr(model)
    with_margin = separate(pairs[:1], [model], seeds=(0,))
    assert str(with_margin[0]).startswith("separated at layer 2 (exact); margin in float64 ")
    assert str(separate(family("rook"), ["dss:nm/2"], act=None)[0]) == "not separated (exact)"


def test_a_registered_model_can_be_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("_entries", "_aliases"):  # what is registered here is forgotten afterwards
        monkeypatch.setattr(reign.nn.MODELS, part, dict(getattr(reign.nn.MODELS, part)))

    class OwnTerms(reign.nn.SubgraphGNN):
        """A model of one's own."""

        def __init__(
            self, in_channels: int, hidden_channels: int, num_layers: int, out_channels: int | None = None, **options: Any
        ) -> None:
            super().__init__(in_channels, hidden_channels, num_layers, out_channels, terms=["own", "local", "transpose"], **options)

    reign.nn.MODELS.register("ownterms")(OwnTerms)
    verdicts = separate(family("triangles"), ["ownterms:nm/3"], ["ownterms:nm"], act=None)
    assert [v.separated for v in verdicts] == [True, True]
    assert "inside the ReIGN(2) table" in str(reign.card("ownterms:nm/3", families=["triangles"]))


def test_what_has_no_exact_form() -> None:
    (pair,) = family("triangles")
    for model, message in (
        (reign.nn.SUN(1, 8, 2, 1, conv="gcn"), "use conv='gin' or 'graphconv'"),
        (reign.nn.SUN(1, 8, 2, 1, edge_dim=2), "made for edge features"),
        (reign.nn.IGN2(1, 8, 2, 1, edge_dim=2), "made for edge features"),
        (reign.nn.DS(1, 8, 2, 1, jk="max"), "jk='max' has no exact form"),
    ):
        with pytest.raises(ValueError, match=message):
            separate([pair], [model], act=None)
    with pytest.raises(ValueError, match="does not cover residual connections"):
        separate([pair], wl=[reign.nn.DS(1, 8, 2, 1, residual=True)])
    with pytest.raises(ValueError, match="nothing to decide by"):
        separate([pair], ["mpnn"], exact=False, act=None)


def test_methods_by_name() -> None:
    assert parse_method("sun:ego+:2/4") == ("sun", "ego+:2", 4)
    assert parse_method("mpnn") == ("mpnn", None, None)
    with pytest.raises(ValueError, match="expected a number of layers"):
        parse_method("sun:nm/x")
    with pytest.raises(ValueError, match="the order of the WL test is 7, expected 1 to 4"):
        separate(family("triangles"), wl=[7])
    with pytest.raises(ValueError, match="unknown model 'sunn'; did you mean 'sun'"):
        separate(family("triangles"), wl=["sunn:nm"])


def test_pairs_that_cannot_be_compared() -> None:
    (pair,) = family("triangles")
    wide, empty, broken = pair.one.clone(), pair.one.clone(), pair.one.clone()
    wide.x, broken.x = torch.ones(6, 2), torch.full((6, 1), float("nan"))
    empty.x, empty.edge_index = torch.ones(0, 1), torch.empty(2, 0, dtype=torch.long)
    for other, message in ((wide, "have 2 and 1 features"), (empty, "has no nodes"), (broken, "not finite")):
        with pytest.raises(ValueError, match=message):
            separate([Pair("odd", other, pair.other)], ["mpnn"])
    with pytest.raises(ValueError, match="num_layers is 0"):
        separate([pair], ["sun:nm/0"])
    with pytest.raises(ValueError, match="seeds is empty"):
        separate([pair], ["mpnn"], seeds=())


def test_ppgn_is_as_strong_as_3_wl_on_csl() -> None:
    verdicts = separate(family("csl"), ["ppgn/3"], act=None)
    assert count(verdicts, "ppgn/3") == 45


def test_families_from_files_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    with pytest.raises(
        ValueError, match="in the folder given by the environment variable REIGN_DATA, which is not set; export REIGN_DATA=<folder>"
    ):
        family("exp")


@pytest.mark.parametrize("name", ["sun", "gnnak", "mpnn", "ign2"])
def test_cards(name: str) -> None:
    page = reign.card(reign.build_model(name, 2, 8, 2, 1), families=["triangles", "rook"])
    text = str(page)
    for section in ("Update equations", "Symmetry", "Cost", "Bound", "Separates"):
        assert section in text
    assert "x[k,i] <- " in text
    assert "invariant to permutations of nodes (S_n): checked" in text
    assert "rook: 0 of 1 pair; with the model's layers 0" in text
    assert (
        f"triangles: {int(name in ('sun', 'gnnak'))} of 1 pair" in text
    )  # ego nets of depth 3 leave out half of the graph with two triangles
    assert page.markdown().startswith("# ")
    assert page.html().startswith("<!doctype html>")
    assert "&lt;-" in page.html()
    bound = page.sections["Bound"][0]
    assert bound.startswith({"mpnn": "1-WL", "ign2": "2-WL"}.get(name, "3-WL"))


def test_a_card_does_not_lie_about_symmetry() -> None:
    class Broken(reign.nn.SUN):
        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return x * torch.arange(x.size(0), dtype=x.dtype)[:, None]

    with pytest.raises(AssertionError, match="not equivariant"):
        reign.card(Broken(2, 8, 2, 1), families=[])
