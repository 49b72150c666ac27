"""The documentation as a whole: it is built without a warning, its links hold, a browser opens it, and its programs run."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pictures import look_at

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "howto").glob("*.md"))]
SMALL = {
    "first_model.py": ["--graphs", "40", "--epochs", "1"],
    "own_molecules.py": ["--epochs", "1", "--models", "2"],
    "new_layer.py": ["--graphs", "60", "--epochs", "1"],
    "theorems.py": ["--graphs", "2"],
    "large_graph.py": ["--nodes", "600", "--steps", "4"],
}
SHOWN = {  # what each of them must print, whatever it learns in so short a time
    "first_model.py": r"^always the mean +error \d+\.\d{3}\n(.+ error \d+\.\d{3}\n){2}$",
    "own_molecules.py": r"^test rmse: \d+\.\d{3}\n.*'not a molecule'.*\nThe explanation is in .*why\.html\.\n$",
    "new_layer.py": r"SubgraphGNN: separated at layer \d \(exact\).*, mpnn: not separated \(exact\).*error in standard deviations: \d+\.\d{3}",
    "theorems.py": r"1-WL: False +mpnn: not separated \(exact\); sun:nm: separated.*largest difference on 2 graphs: (\d\.\de-1\d|0\.0e\+00)\n",
    "large_graph.py": r"^600 nodes, .* pairs are stored, of 360,000\n(.+ % of the test nodes right, .+ s a step\n){2}$",
}


def python(*args: str, cwd: Path) -> str:
    """What a program writes, in a process of its own."""
    env = os.environ | {
        "PYTHONPATH": str(ROOT / "src"), "REIGN_CACHE": str(cwd / "cache"), "OMP_NUM_THREADS": "1", "REIGN_REPORT": "0",
    }  # fmt: skip
    done = subprocess.run([sys.executable, *args], capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it: every warning is an error."""
    for module in ("sphinx", "myst_parser", "furo", "latex2mathml"):
        pytest.importorskip(module, reason=f"{module} is not installed; make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    python(
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-E",
        "-b",
        "html",
        "-d",
        str(folder / "tree"),
        str(ROOT / "docs"),
        str(folder / "html"),
        cwd=ROOT,
    )
    return folder / "html"


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_all_links_hold(site: Path) -> None:
    out = python(str(ROOT / "docs" / "builder" / "links.py"), str(site), cwd=ROOT)
    assert re.search(r"^\d{3,} pages, 0 wrong links$", out, re.MULTILINE), out


@pytest.mark.slow
def test_the_site_in_a_browser(site: Path, tmp_path: Path) -> None:
    names = [
        "index",
        "concepts",
        "theory",
        "howto/own-layer",
        "generated/models/sun",
        "generated/terms/needle",
        "generated/api/reign.nn",
    ]
    found, errors = look_at({name: site / f"{name}.html" for name in names}, tmp_path)
    assert errors == []
    for name, page in found.items():
        assert page["title"].endswith("reign 0.1.0") or name == "index", page["title"]
        assert [address for address in page["loaded"] if not address.startswith("file:")] == [], name  # nothing from outside
        assert page["wide"] <= 0, name


NAMED = re.compile(r"```(?:python|yaml)\n# (\w+\.(?:py|yaml))\n(.*?)```", re.DOTALL)


def scripts(file: Path) -> list[str]:
    """The programs on a page: blocks of Python that are no sessions with >>>, and that have no name, which is to be typed in a shell."""
    blocks = re.findall(r"```python\n(.*?)```", NAMED.sub("", file.read_text()), re.DOTALL)
    return [text for text in blocks if ">>>" not in text]


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in PAGES if scripts(file)], ids=lambda file: file.name)
def test_programs_on_pages_run(file: Path, tmp_path: Path) -> None:
    for text in scripts(file):
        python("-W", "ignore", "-c", text, cwd=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("page", "made"), [("own-layer", ["mine.svg", "RUN", "out.csv"]), ("own-data", ["RUN"])])
def test_programs_on_pages_that_are_commands(page: str, made: list[str], tmp_path: Path) -> None:
    """A page gives the file, and the commands that are typed: both are tried as they are."""
    text = (ROOT / "docs" / "howto" / f"{page}.md").read_text()
    for name, content in NAMED.findall(text):
        (tmp_path / name).write_text(content)
    alcohols = [f"{'C' * n}O" for n in range(1, 21)]
    (tmp_path / "molecules.csv").write_text("smiles,logS\n" + "".join(f"{smiles},{len(smiles)}\n" for smiles in alcohols))
    (tmp_path / "others.csv").write_text("smiles\nCCO\nc1ccccc1\n")
    commands = re.findall(r"(?m)^    python (\w+\.py .*)$", text)
    assert len(commands) >= 3
    for command in commands:
        python(*shlex.split(command), cwd=tmp_path)
    assert all((tmp_path / name).exists() for name in made)
    if page == "own-layer":
        assert "mine" in (tmp_path / "RUN" / "recipe.yaml").read_text()
        rows = (tmp_path / "out.csv").read_text().splitlines()
        assert rows[0] == "smiles,logS_pred,warning,error"
        assert len(rows) == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_examples_run(name: str, tmp_path: Path) -> None:
    out = python(str(ROOT / "examples" / name), *SMALL[name], cwd=tmp_path)
    assert re.search(SHOWN[name], out, re.DOTALL), out


def test_every_example_is_tried() -> None:
    assert {file.name for file in (ROOT / "examples").glob("*.py")} == {*SMALL, "demo.py"}
    assert len(list((ROOT / "examples").glob("*.ipynb"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda file: file.name)
def test_notebooks_run(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first cell to the last, with less data and fewer epochs; what they print without training is what they hold."""
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed; make docs installs it")
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path / "cache"))
    kept = nbformat.read(file, as_version=4)
    book = nbformat.from_dict(kept)
    trained = False
    for cell in book.cells:
        cell.source = re.sub(
            r"(?m)^EPOCHS = \d+", "EPOCHS = 1", re.sub(r"NUM_GRAPHS, EPOCHS = \d+, \d+", "NUM_GRAPHS, EPOCHS = 60, 1", cell.source)
        )
    before = [[output.get("text") for output in cell.get("outputs", [])] for cell in kept.cells]
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    for cell, texts in zip(book.cells, before, strict=True):
        trained = trained or "EPOCHS" in cell.source
        if cell.cell_type == "code" and not trained:
            now = [output.get("text") for output in cell.outputs if output.get("name") != "stderr"]
            assert now == texts, cell.source
