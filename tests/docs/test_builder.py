"""How the documentation is made: formulas, pages of policies, terms and models, the check of links, and the commands that pages name."""

import doctest
import re
import shlex
import sys
from pathlib import Path
from typing import Any
from xml.dom.minidom import parseString

import pytest
from typer.main import get_command

import reign
from reign.cli import app
from reign.experiments.records import read_records
from reign.tables import number

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "docs"))

from builder.api import MODULES, api_pages, names_of  # noqa: E402
from builder.evidence import draw_apart, draw_table, evidence_pages, pairs  # noqa: E402
from builder.links import problems  # noqa: E402
from builder.models import drawing as model_drawing  # noqa: E402
from builder.models import model_pages  # noqa: E402
from builder.policies import FORMULAS, policy_pages  # noqa: E402
from builder.project import PROJECT, within_the_site  # noqa: E402
from builder.speed import RESULTS, draw_speed, drawn_tables  # noqa: E402
from builder.terms import drawing, file_of, term_pages  # noqa: E402

PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md")), ROOT / "README.md"]


def run_examples(pages: dict[str, str]) -> int:
    """Run the examples of pages that were made; the number of them."""
    tried = 0
    for name, text in pages.items():
        if name.endswith(".md"):
            runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
            test = doctest.DocTestParser().get_doctest(text, {}, name, name, 0)
            out: list[str] = []
            runner.run(test, out=out.append)
            assert runner.failures == 0, "".join(out)
            tried += runner.tries
    return tried


def test_policies_have_a_formula_a_drawing_and_examples_that_run() -> None:
    pages = policy_pages()
    names = [*reign.policies.POLICIES.names(), "sampled"]
    assert set(names) == set(FORMULAS)
    for name in names:
        file = {"2-": "tuples"}.get(name, name)
        assert pages[f"policies/{file}.svg"].count("<svg") == 1
        assert FORMULAS[name] in pages[f"policies/{file}.md"]
    assert run_examples(pages) >= 4 * 4


@pytest.mark.slow
@pytest.mark.usefixtures("signatures_unchecked")
def test_terms_and_models_have_a_formula_and_a_drawing_and_examples_that_run() -> None:
    terms, models = term_pages(), model_pages()
    for term in reign.list_terms():
        assert reign.nn.latex_formula(term.formula) in terms[f"terms/{file_of(term.name)}.md"]
        assert (drawing(term) is not None) == (f"terms/{file_of(term.name)}.svg" in terms)
    assert sum(name.endswith(".svg") for name in terms) >= len(reign.list_terms()) - 1
    for name in reign.list_models():
        assert "leftarrow" in models[f"models/{name}.md"]
        assert (model_drawing(name) is not None) == (f"models/{name}.svg" in models)
    assert sum(name.endswith(".svg") for name in models) == len(reign.list_models())
    assert run_examples(terms) >= 3 * len(reign.list_terms())
    assert run_examples(models) >= 3 * len(reign.list_models())


def test_the_reference_has_every_public_name() -> None:
    pages = api_pages()
    modules = [f"reign.{name}" for name in reign.__all__ if f"reign.{name}" in sys.modules and f"reign.{name}" in MODULES]
    assert len(modules) >= 10
    for module in modules:
        text = pages[f"api/{module}.md"]
        assert [name for name in names_of(sys.modules[module]) if f":: {module}.{name}\n" not in text] == []
    commands = pages["api/commands.md"]
    assert "## reign train" in commands
    assert "--split-type" in commands


def test_formulas_become_mathml() -> None:
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed; make docs installs it")
    from builder.mathml import to_mathml

    for name in ("sun", "dss", "ppgn"):
        latex = str(reign.build_model(name, 4, 8, 2, 1).describe(latex=True))
        tree = parseString(to_mathml(latex, block=True))
        assert len(tree.getElementsByTagName("mtr")) == latex.count(r"\leftarrow")
    for term in reign.list_terms():
        assert parseString(to_mathml(reign.nn.latex_formula(term.formula))).getElementsByTagName("mi")


def test_links_out_of_docs_lead_to_their_pages() -> None:
    assert within_the_site("[a](../CONTRIBUTING.md)", "data") == "[a](generated/project/contributing.md)"
    assert within_the_site("[a](../../benchmarks/RESULTS.md)", "howto/gpu") == "[a](../generated/project/measured.md)"


def test_every_number_of_the_paper_with_a_run_is_on_the_page_of_evidence() -> None:
    found = pairs(read_records(ROOT / "results"))
    results = (ROOT / "results" / "README.md").read_text()
    assert len(found) == len(
        [line for line in results.splitlines() if re.match(r"\| [^|]+ \| \d[^|]* \| \*\*", line)]
    )  # those with both
    for table in {pair.table for pair in found}:
        svg = draw_table(table, found).svg
        mine = [pair for pair in found if pair.table == table]
        assert [pair for pair in mine for who in ("paper", "ours") if f'id="{who}-{pair.column}-{pair.row}"' not in svg] == []
    page = evidence_pages()["evidence.md"].replace("\u00a0", " ")
    zinc = next(pair for pair in found if (pair.table, pair.row) == ("zinc", "sun-ego"))
    assert zinc.paper == (0.083, 0.003)
    assert f"| SUN (EGO) | 0.083 ± 0.003 | {number(*zinc.ours)} | {zinc.apart:+.1f} | {zinc.models} |" in page
    known = [pair for pair in found if pair.apart is not None]
    near, better, worse = map(int, re.findall(r"(\d+) (?:are within|are better|are worse)", page))
    assert (near, near + better + worse) == (sum(abs(pair.apart or 0) <= 2 for pair in known), len(known))
    assert draw_apart(found).svg.count(">zinc: ") == len([pair for pair in known if pair.table == "zinc"])


def test_a_smaller_error_is_better() -> None:
    pair = next(pair for pair in pairs(read_records(ROOT / "results")) if (pair.table, pair.row) == ("zinc", "dss-ego"))
    assert pair.apart is not None
    assert pair.apart > 2 > 0 > pair.better  # further to the left


def test_speed_is_drawn_from_todays_figures() -> None:
    tables = drawn_tables(RESULTS.read_text())
    assert {table.title for table in tables} == {
        "SUN on a GPU",
        "Other models on a GPU",
        "SUN on a CPU",
        "Training on a table of molecules",
    }
    svg = draw_speed(tables).svg
    assert svg.count('id="bar-') == sum(len(table.lines) for table in tables) == 17
    with pytest.raises(ValueError, match="'A \\(drawn\\)' has no table"):
        drawn_tables("## A (drawn)\n\nNo table.\n")


def test_todays_figures_are_short_and_the_log_is_dated() -> None:
    assert len(RESULTS.read_text().splitlines()) <= 150
    log = RESULTS.with_name("LOG.md").read_text()
    dates = re.findall(r"^## (\d{4}-\d\d-\d\d)", log, re.MULTILINE)
    assert len(dates) == len(re.findall("^## ", log, re.MULTILINE)) >= 8
    assert dates == sorted(dates, reverse=True)
    assert "What failed" in log
    assert {"benchmarks/RESULTS.md", "benchmarks/LOG.md"} <= set(PROJECT)


def test_wrong_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"></p><a href="b.html#there">b</a><a href="#here">here</a><a href="https://x.org">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="there"></p><img src="a.svg"><script src="https://x.org/a.js"></script>')
    assert problems(tmp_path) == ["b.html loads https://x.org/a.js from outside", "b.html links to a.svg, which does not exist"]
    (tmp_path / "b.html").write_text('<a href="javascript:x">no</a>')
    assert [line.split(" links to ")[1] for line in problems(tmp_path)] == [
        "b.html#there, a page without that place",
        "javascript:x, which is neither a page here nor an address of the web",
    ]


def commands(file: Path) -> list[list[str]]:
    """The commands of reign that a page names: on lines of their own, or between backquotes."""
    text = re.sub(r"```\w*\n.*?```", "", file.read_text(), flags=re.DOTALL)
    lines = re.findall(r"^ {4}(?:torchrun [^\n]* -m )?reign (.+)$", text, re.MULTILINE)
    lines += [line for line in re.findall(r"`reign ([^`]+)`", text) if "..." not in line]
    return [shlex.split(re.sub(r"\s+#.*", "", line)) for line in lines]


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_commands_on_pages_exist_with_their_options(file: Path) -> None:
    top: Any = get_command(app)
    for words in commands(file):
        command, rest = top, list(words)
        while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
            assert rest[0] in command.commands, f"reign {shlex.join(words)}"
            command = command.commands[rest.pop(0)]
        if hasattr(command, "commands") or "--help" in rest:
            continue
        try:
            command.make_context("reign", rest)
        except Exception as error:
            message = error.format_message() if hasattr(error, "format_message") else str(error)
            if not message.startswith("Missing") and not message.endswith(
                "requires an argument."
            ):  # a page may name a command alone
                raise AssertionError(f"reign {shlex.join(words)}: {message}") from error


def test_a_wrong_command_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("    reign train -i a.csv --target-colums y   # wrong\n")
    with pytest.raises(AssertionError, match="target-colums"):
        test_commands_on_pages_exist_with_their_options(tmp_path / "a.md")
    (tmp_path / "a.md").write_text("Use `reign polices`.\n")
    with pytest.raises(AssertionError, match="reign polices"):
        test_commands_on_pages_exist_with_their_options(tmp_path / "a.md")
