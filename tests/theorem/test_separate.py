"""Which pairs models tell apart: what is proved, what is known, and what must not happen."""

from pathlib import Path

import pytest
import torch

import reign
from reign.theory import GENERATED, Verdict, family, parse_method, read_graph6, separate, wl_separates

NODE_BASED = ["null", "nd", "nm", "ego:1", "ego:2", "ego+:1", "ego+:2", "nm+distance", "ego+distance:2"]
MODELS = ["sun", "reign2", "ds", "dss", "ngnn", "idgnn", "gnnak", "gnnakctx", "gnnakplus", "sswl"]


def count(verdicts: list[Verdict], method: str) -> int:
    return sum(v.separated for v in verdicts if v.method == method)


def test_csl() -> None:
    """All 45 pairs of classes; roots marked by hand, or by SUN itself; and not by those that cannot."""
    strong = ["ds:nm", "dss:nm", "sun:nm", "gnnak:nm/6", "idgnn:nm/10", "sun:null"]
    weak = ["dss:null", "mpnn", "gnnak:nm/1"]
    verdicts = separate(family("csl"), strong + weak, [1, 3])
    assert {method: count(verdicts, method) for method in strong} == dict.fromkeys(strong, 45)
    assert {method: count(verdicts, method) for method in weak} == dict.fromkeys(weak, 0)
    assert (count(verdicts, "1-WL"), count(verdicts, "3-WL")) == (0, 45)


EXP = ["sun:nm/4", "sun:ego+:2/4", "dss:nm/4", "dss:ego+:2/4", "gnnak:nm/4", "gnnak:ego+:2/4"]


@pytest.mark.parametrize("method", EXP)
def test_exp_in_part(method: str, real_data: Path) -> None:
    pairs = family("exp")[::40]
    assert count(separate(pairs, [method]), method) == len(pairs) == 15
    assert count(separate(pairs, ["mpnn"], seeds=(0,)), "mpnn") == 0


@pytest.mark.slow
def test_exp(real_data: Path) -> None:
    pairs = family("exp")
    verdicts = separate(pairs, [*EXP, "mpnn"], [1])
    assert {method: count(verdicts, method) for method in EXP} == dict.fromkeys(EXP, 600)
    assert count(verdicts, "mpnn") == count(verdicts, "1-WL") == 0


def equal_under_3_wl() -> list[reign.theory.Pair]:
    return [p for name in GENERATED if name != "csl" for p in family(name) if not wl_separates(p.one, p.other, 3)]


@pytest.mark.parametrize("model", MODELS)
def test_no_model_goes_beyond_3_wl(model: str) -> None:
    pairs = equal_under_3_wl()
    assert len(pairs) == 3
    methods = [f"{model}:{policy}/3" for policy in NODE_BASED if not (model == "gnnakplus" and policy == "nd")]
    assert not [v for v in separate(pairs, methods) if v.separated]


@pytest.mark.parametrize("model", MODELS)
def test_no_model_separates_strongly_regular_graphs(model: str, real_data: Path) -> None:
    pairs = family("sr")
    assert len(pairs) == 105
    assert not any(wl_separates(p.one, p.other, 3) for p in pairs[:14])
    methods = [f"{model}:{policy}/2" for policy in NODE_BASED if not (model == "gnnakplus" and policy == "nd")]
    assert not [v for v in separate(pairs, methods) if v.separated]


@pytest.mark.parametrize("name", ["ppgn/3", "ign2/3", "mpnn/3"])
def test_baselines_stay_within_their_bounds(name: str) -> None:
    verdicts = separate(equal_under_3_wl(), [name])
    assert not any(v.separated for v in verdicts)
    easy = family("triangles")
    assert separate(easy, [name])[0].separated == (name == "ppgn/3")


def test_policies_beyond_nodes_do_separate_the_rook_and_the_shrikhande_graph() -> None:
    verdicts = separate(family("rook"), ["ds:ed", "ds:2-nm", "ds:nm"])
    assert [v.separated for v in verdicts] == [True, True, False]


def test_noise_is_not_separation() -> None:
    """A graph and a permuted copy of itself."""
    from reign.testing import permute_graph, random_permutation
    from reign.theory import Pair

    graph = family("regular")[0].one
    copy = permute_graph(graph, random_permutation(graph.num_nodes, seed=5))
    assert not any(v.separated for v in separate([Pair("copy", graph, copy)], ["sun:nm", "reign2:nm", "gnnak:nm"], [1, 3]))


def test_methods_by_name() -> None:
    assert parse_method("sun:ego+:2/4") == ("sun", "ego+:2", 4)
    assert parse_method("mpnn") == ("mpnn", None, None)
    with pytest.raises(ValueError, match="expected a number of layers"):
        parse_method("sun:nm/x")
    with pytest.raises(ValueError, match="a WL test of order 7 was asked for, expected 1 to 4"):
        separate(family("triangles"), wl=[7])
    with pytest.raises(ValueError, match="WL test 'sun:nm' is not known"):
        separate(family("triangles"), wl=["sun:nm"])


def test_pairs_that_cannot_be_compared() -> None:
    (pair,) = family("triangles")
    wide, empty, broken = pair.one.clone(), pair.one.clone(), pair.one.clone()
    wide.x, broken.x = torch.ones(6, 2), torch.full((6, 1), float("nan"))
    empty.x, empty.edge_index = torch.ones(0, 1), torch.empty(2, 0, dtype=torch.long)
    for other, message in ((wide, "have 2 and 1 features"), (empty, "has no nodes"), (broken, "not finite")):
        with pytest.raises(ValueError, match=message):
            separate([reign.theory.Pair("odd", other, pair.other)], ["mpnn"])
    with pytest.raises(ValueError, match="num_layers is 0"):
        separate([pair], ["sun:nm/0"])
    with pytest.raises(ValueError, match="seeds is empty"):
        separate([pair], ["mpnn"], seeds=())


def test_ppgn_is_as_strong_as_3_wl_on_csl() -> None:
    verdicts = separate(family("csl"), ["ppgn/3"])
    assert count(verdicts, "ppgn/3") == 45


def test_graph6_files(tmp_path: Path) -> None:
    import networkx as nx

    file = tmp_path / "three.g6"
    file.write_bytes(b"".join(nx.to_graph6_bytes(nx.cycle_graph(n), header=False) for n in (5, 6, 7)))
    assert [p.name for p in read_graph6(file, all_pairs=True)] == ["three.g6 0 / 1", "three.g6 0 / 2", "three.g6 1 / 2"]
    with pytest.raises(ValueError, match="three.g6 holds 3 graphs, expected an even number"):
        read_graph6(file)
    file.write_bytes(b"Es\n")
    with pytest.raises(ValueError, match="line 1: b'Es' is no graph in graph6 format"):
        read_graph6(file)
    with pytest.raises(ValueError, match="there is no file nowhere.g6"):
        family("nowhere.g6")
    with pytest.raises(ValueError, match="unknown family 'rok'; did you mean 'rook'"):
        family("rok")


def test_families_from_files_say_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    with pytest.raises(ValueError, match="in the folder that REIGN_DATA names, which is not set; export REIGN_DATA=<folder>"):
        family("exp")


@pytest.mark.parametrize("name", ["sun", "gnnak", "mpnn", "ign2"])
def test_cards(name: str) -> None:
    page = reign.card(reign.build_model(name, 2, 8, 2, 1), families=["triangles", "rook"])
    text = str(page)
    for section in ("Update equations", "Symmetry", "Cost", "Bound", "Separates"):
        assert section in text
    assert "x[k,i] <- " in text
    assert "invariant to permutations of nodes (S_n): checked" in text
    assert "rook: 0 of 1 pairs" in text
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
