"""docs/coverage.md: every label of the paper is on it, and every name, recipe, test, expression and command on it exists."""

import doctest
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import reign
from reign.experiments import find_recipe, find_table, list_tables
from reign.nn import find_model, term
from reign.theory import family, parse_method

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "coverage.md"
TEXT = """
def:policies def:subgraph_gnns def:implements
lemma:3IGN_implements_policies lemma:3IGN_implements_SubgraphNetworks thm:3IGN_upperbounds_SubgraphNetworks cor:upperbound
thm:ReIGN_implements_SubgraphNetworks prop:3IGN_implements_ReIGN cor:ReIGN_upperbound prop:SUN_is_in_ReIGN prop:SUN_implements_SubgraphNetworks
thm:memorisation_theirs prop:memorisation_ours thm:kIGN_upperbound
proof:3IGN_implements_SubgraphNetworks proof:upperbound proof:ReIGN_implements_SubgraphNetworks
fig:symmetries fig:orbit_dec_sem fig:ops fig:4cycles-ego fig:4cycles-ego-plus fig:zinc fig:orbit_dec fig:ops-app fig:node_marked
tab:count-zinc tab:ogbg-hiv-baselines tab:expansion tab:tud_datasets_full tab:simulation2 tab:synth-std tab:train-perf tab:ablation
eq:subgraph_gnn eq:old_symmetry eq:symmetry eq:2IGN eq:sun_layer_on eq:sun_layer_off
eq:DSGNN eq:DSSGNN eq:DSSGNN_orig eq:GNNAK eq:GNNAK-ctx eq:NestedGNN eq:IDGNN
eq:orbits eq:partitioning eq:3IGN_model eq:orbit_update_equation eq:pool_broadcast eq:pooling eq:morris eq:DSGNN_Morris
eq:3IGN_DSGNN_aggr_1 eq:3IGN_DSGNN_aggr_2 eq:3IGN_DSGNN_up_1 eq:3IGN_DSGNN_up_2 eq:DSSGNN_Morris eq:GNNAK_Morris_S eq:GNNAK_A
eq:3IGN_GNNAK_pooling_1 eq:3IGN_GNNAK_pooling_2 eq:IDGNN_Morris eq:mlp_on_subgraph_readout eq:DSSGNN_final_readout eq:IDGNN_v2
eq:sparsification_iij eq:sparsification_kik eq:sparsification_kij eq:linear_SUN eq:linear_SUN_2
eq:sun_exp_on eq:sun_exp_off eq:sun_exp_hiv_on eq:sun_exp_hiv_off
"""
LABELS = TEXT.split()  # of all definitions, theorems, proofs, figures, tables and equations in the source of the paper
LATER = ["HyMN"]  # quoted rows that are not of this paper
KINDS = ("def", "lemma", "thm", "cor", "prop", "proof", "fig", "tab", "eq")


def words(text: str) -> list[str]:
    """What stands between backquotes, without blocks of code."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def names_of(text: str) -> dict[str, Any]:
    """The names that the first example of a page makes."""
    names: dict[str, Any] = {}
    for example in doctest.DocTestParser().get_examples(text):
        exec(example.source, names)
    return names


def is_term(name: str) -> bool:
    """Whether there is such a term."""
    try:
        return bool(term(name))
    except ValueError:
        return False


def check(word: str, names: dict[str, Any]) -> None:
    """Raise an error if there is no such label, command, test, file, recipe, table, term, policy, option or expression."""
    if word.split(":")[0] in KINDS:
        assert word in LABELS, f"{word} is no label of the paper"
    elif word.startswith("reign "):
        check_command(shlex.split(word)[1:])
    elif re.search(r"\.(py|md|yaml|json)(::|$)", word):
        file, _, test = word.partition("::")
        assert (ROOT / file).is_file(), f"{file} does not exist"
        assert not test or re.search(rf"^def {test}\(", (ROOT / file).read_text(), re.MULTILINE), f"{word} does not exist"
    elif word.split("/")[0] in list_tables():
        table, *rest = word.split("/")
        for name, find in zip(rest, (find_table(table).find_row, find_table(table).find_column), strict=False):
            find(name)
    elif all(is_term(part) for part in word.split("+")):
        return
    elif re.fullmatch(r"\w+=[^()]+", word):
        eval(f"reign.nn.SUN(4, 8, 2, 1, {word})", names)
    elif word.startswith("reign.") or word.endswith(")"):
        eval(word, names)
    else:
        reign.policy(word)


def check_command(rest: list[str]) -> None:
    """Check what the arguments of a command name; its options are checked for all pages in test_builder.py."""
    given = [one for before, one in zip(["", *rest], rest, strict=False) if not one.startswith("-") and not before.startswith("-")]
    options = {(key, value) for key, value in pairwise(rest) if key.startswith("-")}
    command, *given = given
    if given and given[0].isupper():  # a placeholder, such as TABLE/ROW
        return
    if command in ("train", "tune"):
        find_recipe(given[0])
    elif command in ("reproduce", "recipes") or given[:1] == ["curves"]:
        table = find_table(given[given[:1] == ["curves"]])
        assert {row for key, row in options if key == "--row"} <= set(table.rows)
    elif given[:1] == ["layer"]:
        find_model(given[1])
    elif command == "separate":
        assert family(given[0])
        for key, value in options:
            model, policy, _ = parse_method(value)
            assert key == "--model" or value.isdigit(), value
            assert key == "--wl" or (find_model(model) and reign.policy(policy or "null"))


def test_every_label_of_the_paper_is_on_the_page() -> None:
    found = set(words(PAGE.read_text()))
    assert [label for label in LABELS if label not in found] == []
    assert len(LABELS) == len(set(LABELS)) == 78


def test_every_name_on_the_page_exists() -> None:
    text = PAGE.read_text()
    names, wrong = names_of(text), []
    for word in dict.fromkeys(words(text)):
        try:
            check(word, names)
        except Exception as error:
            wrong.append(f"{word}: {error!r}")
    assert wrong == []


def test_every_row_with_a_number_of_the_paper_is_on_the_page() -> None:
    text = PAGE.read_text()
    found = set(words(text))
    for name in ("counting", "zinc", "molhiv", "tu", "graph-properties", "four-cycle", "ablation"):
        table = find_table(name)
        line = next(line for line in text.splitlines() if f"`reign reproduce {name}` |" in line)
        assert [row for row, about in table.rows.items() if about.paper and f"{name}/{row}" not in found] == [], name
        quoted = [title.split(" (")[0] for title in table.quoted]
        assert [title for title in quoted if title not in LATER and title.lower() not in line.lower()] == [], name


def test_every_row_is_one_line_of_its_table() -> None:
    """Rows have as many cells as the heading of their table."""
    width = 0
    for line in PAGE.read_text().splitlines():
        if not line.startswith("|"):
            width = 0
            continue
        cells = len(re.sub(r"`[^`]*`", "", line).split("|"))
        width = width or cells
        assert cells == width, line


@pytest.mark.parametrize(
    "word",
    [
        "eq:sun", "reign.nn.SUNN", "reign.nn.SUN(4, 8, 2, 1, needles=2)", "tests/docs/test_coverage.py::test_none", "tests/none.py", "zinc/none",
        "counting/sun-ego/7-cycle", "needle@B", "egg:2", 'convolution="gin"', "reign train zinc/none", "reign reproduce counting --row none",
        "reign show curves zinc-curves", "reign show layer sunn", "reign separate cfi --model sunn:nm", "reign separate none --wl 3", "model.none()",
    ],
)  # fmt: skip
def test_wrong_names_are_found(word: str) -> None:
    names = names_of(PAGE.read_text())
    with pytest.raises((AssertionError, ValueError, AttributeError, TypeError)):
        check(word, names)
