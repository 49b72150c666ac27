"""Every picture: its structure against a reference, its texts against each other, and its files."""

import importlib.util
import json
import re
import sys
from functools import partial
from pathlib import Path

import pytest

import reign
from pictures import overlaps, structure
from reign.draw import DARK, LIGHT, Picture
from reign.nn import SubgraphConv, SubgraphGNN
from reign.plots import draw_layer, draw_layers, read_graph
from reign.plots._readings import figures_of_model, read_cells

HERE = Path(__file__).parent


def _samples() -> dict[str, Picture]:
    spec = importlib.util.spec_from_file_location("samples", HERE / "samples.py")
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    sys.modules["samples"] = module
    spec.loader.exec_module(module)
    found: dict[str, Picture] = module.pictures()
    return found


@pytest.fixture(scope="module")
def samples() -> dict[str, Picture]:
    return _samples()


def test_structure_is_that_of_the_reference(samples: dict[str, Picture]) -> None:
    expected = json.loads((HERE / "reference.json").read_text())
    assert list(samples) == list(expected)
    for name, picture in samples.items():
        found = structure(picture.svg)
        assert found["texts"] == expected[name]["texts"], name
        assert found["parts"] == expected[name]["parts"], name
        assert found.get("classes") == expected[name].get("classes"), name
        assert found["size"] == pytest.approx(expected[name]["size"], abs=2), name


def test_no_text_lies_on_another(samples: dict[str, Picture], tmp_path: Path) -> None:
    plain = {name: picture.svg for name, picture in samples.items() if not name.startswith("layer-")}  # formulas are many texts
    large = samples["bag-5"].svg.replace("font-size: 7px", "font-size: 60px")
    found = overlaps({**plain, "large": large}, tmp_path)
    assert found.pop("large"), "letters that are much too large must meet"
    assert {name: pairs for name, pairs in found.items() if pairs} == {}


def test_files(samples: dict[str, Picture], tmp_path: Path) -> None:
    for name in ("bag-5", "bag-molecule"):
        picture = samples[name]
        picture.save(tmp_path / "a.svg")
        picture.save(tmp_path / "a.png")
        assert (tmp_path / "a.svg").read_text() == picture.svg == picture._repr_svg_()
        assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    with pytest.raises(ValueError, match=r"a\.pdf does not end in \.svg or \.png"):
        samples["bag-5"].save(tmp_path / "a.pdf")


def test_the_same_picture_is_the_same_file(samples: dict[str, Picture]) -> None:
    assert draw_layer("sun").svg == samples["layer-sun"].svg
    assert draw_layer("dss").svg != samples["layer-sun"].svg


def test_pages_colour_paper_and_ink(samples: dict[str, Picture]) -> None:
    text = samples["layer-sun"].inline()
    assert text.startswith("<svg")
    assert "var(--ink)" in text
    assert LIGHT.ink not in text
    assert DARK.ink in draw_layer("sun", dark=True).svg


# -- layers against the paper's section "Illustrated comparison of Subgraph GNNs" ----------------------------------------


def cells(model: str, on: bool) -> dict[str, tuple[list[str], set[tuple[int, int]]]]:
    """By parameter: how it reads, and which entries of a matrix of 4 x 4 for the target x[0, 2], or x[2, 2]."""
    figure = (figure,) = figures_of_model(model)
    k, i = (2, 2) if on else (0, 2)
    out = {}
    for parameter in figure.on if on else figure.off:
        found = [read_cells(formula, k, i, 4) for formula in parameter.formulas]
        out[parameter.name] = ([reading.how for reading in found], set().union(*(reading.cells for reading in found)))
    return out


ROW, COLUMN, ALL = {(0, j) for j in range(4)}, {(h, 2) for h in range(4)}, {(h, j) for h in range(4) for j in range(4)}
ROOT_ROW = {(2, j) for j in range(4)}


def test_no_node_is_its_own_neighbour() -> None:
    assert read_cells("sum_{j ~_k i} x[k,j]", 1, 3, 4).cells == {(1, 0), (1, 1), (1, 2)}
    assert read_cells("sum_j x[k,j]", 1, 3, 4).cells == {(1, 0), (1, 1), (1, 2), (1, 3)}


def test_ds_ngnn_and_reconstruction_share_one_local_parameter() -> None:
    for model in ("ds", "ngnn", "reconstructiongnn"):
        assert cells(model, False) == {"own+local": (["one", "local"], ROW)}
        assert cells(model, True) == {"own+local": (["one", "local"], ROOT_ROW)}


def test_id_gnn_has_another_parameter_for_messages_from_the_root() -> None:
    assert cells("idgnn", False) == {"own+local_others": (["one", "local"], ROW - {(0, 0)}), "root_msg": (["local"], {(0, 0)})}
    assert cells("idgnn", True) == {"own+local_others": (["one", "local"], ROOT_ROW), "root_msg": (["local"], set())}


def test_dss_adds_the_needle() -> None:
    found = cells("dss", False)
    assert found["own+local"] == (["one", "local"], ROW)
    assert found["needle+needle_msg"] == (["global", "local"], ALL)
    assert read_cells("sum_h x[h,i]", 0, 2, 4).cells == COLUMN


def test_gnn_ak_reads_the_root_and_its_subgraph() -> None:
    for model, more in (("gnnak", {}), ("gnnakctx", {"needle": (["global"], COLUMN)})):
        expected = {
            "own+local": (["one", "local"], ROW),
            "node_root": (["one"], {(2, 2)}),
            "node_readout": (["global"], ROOT_ROW),
            **more,
        }
        assert cells(model, False) == expected


def test_sun_has_its_seven_terms_off_and_five_on_the_diagonal() -> None:
    off, on = cells("sun", False), cells("sun", True)
    assert off == {
        "node_root": (["one"], {(2, 2)}),
        "root": (["one"], {(0, 0)}),
        "own": (["one"], {(0, 2)}),
        "readout": (["global"], ROW),
        "own+local": (["one", "local"], ROW),
        "needle+needle_msg": (["global", "local"], ALL),
    }
    assert list(on) == ["own", "readout", "own+local", "needle+needle_msg"]
    assert figures_of_model("sun")[0].on[0].roots
    assert not figures_of_model("dss")[0].on[0].roots  # the same weights


@pytest.mark.parametrize("name", reign.list_models())
def test_every_model_has_a_figure(name: str) -> None:
    figures = figures_of_model(name)
    assert all(figure.off for figure in figures)
    for parameter in (parameter for figure in figures for parameter in figure.off):
        for formula in parameter.formulas:  # off the diagonal, own_root reads nothing
            assert bool(read_cells(formula, 1, 3, 5).cells) == ("[i = k]" not in formula), parameter


def test_all_kinds_of_layers_are_drawn_with_their_numbers() -> None:
    """SSWL+ as published ends in a pooling layer, and a model can be given a list of layers."""
    local, pooling = figures_of_model("sswl-published")
    assert (local.at, local.numbers, pooling.at, pooling.numbers) == ((0, 1, 2), "0 to 2", (3,), "3")
    assert [p.name for p in local.off] == ["own+local", "own+swap_local", "own+node_root"]
    assert [p.name for p in pooling.off] == ["readout"]
    one, other = (partial(SubgraphConv, terms=["own", term]) for term in ("needle", "transpose"))
    mixed = SubgraphGNN(4, 8, 3, 1, layer=[one, other, one])
    assert [(figure.numbers, figure.off[1].name) for figure in figures_of_model(mixed)] == [("0, 2", "needle"), ("1", "transpose")]
    assert figures_of_model(SubgraphGNN(4, 8, 3, 1, layer=[one, one, one]))[0].numbers == ""
    texts = "".join(structure(draw_layer(mixed).svg)["texts"])
    assert texts.count("layers 0, 2: update of") == texts.count("layer 1: update of") == 2
    assert "transpose" in texts
    ids = re.findall(r' id="(\S*(?:k-i|i-i)\S*)"', draw_layer(mixed).svg)
    assert len(ids) == len(set(ids)) > 10
    side = structure(draw_layers(["sswl-published", "ds"]).svg)["texts"]
    assert {"SSWL+ *, 0 to 2", "SSWL+ *, 3", "DS-GNN"} <= set(side)


def test_a_term_of_ones_own_draws_itself() -> None:
    from reign.nn import TERMS, Term

    TERMS.register("far")(Term("far", "sum_{j != i} x[j,k]", "pair", lambda s, where: s.h))
    assert "far" in "".join(structure(draw_layer(terms=["own", "far"]).svg)["texts"])
    TERMS.register("odd")(Term("odd", "x[k,i] * x[i,k]", "pair", lambda s, where: s.h))
    with pytest.raises(ValueError, match="the formula 'x\\[k,i\\] \\* x\\[i,k\\]' cannot be drawn"):
        draw_layer(terms=["odd"])


def test_graphs_of_users(tmp_path: Path) -> None:
    file = tmp_path / "two.g6"
    file.write_text("Bw\nDhc\n")
    sizes = {"0-1,1-2": 3, "cycle:7": 7, "star:5": 5, "house": 5, "CCO": 3, str(file): 3}
    assert {text: read_graph(text).data.num_nodes for text in sizes} == sizes
    assert read_graph(str(file), 1).data.num_nodes == 5
    assert read_graph("CCO").molecule is not None
    for text, message in (
        ("cycle", "cycle:N"),
        ("cycle:0", "from 1 to 500"),
        ("no.g6", "the file no.g6 does not exist"),
        ("0-999999", "at most 499"),
    ):
        with pytest.raises(ValueError, match=message):
            read_graph(text)
    with pytest.raises(ValueError, match="--index is 2, expected 0 to 1"):
        read_graph(str(file), 2)
