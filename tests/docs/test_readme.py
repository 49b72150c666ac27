"""The README stays short, names its readers and the commands of a clone, and each of its commands runs as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from readme import OF_A_CLONE, commands, run
from reign.cli import app
from reign.experiments.pages import BEGIN, END, SUMMARY

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")


def too_long(page: str) -> list[str]:
    """What of a page is beyond the bounds: its lines, the characters of a line of text, the rows of results."""
    lines = page.splitlines()
    rows = [line for line in page.partition(BEGIN)[2].partition(END)[0].splitlines() if re.match(r"\| [^-]", line)]
    rows = [line for line in rows if not line.startswith("| ours (paper)")]
    wide = [line for line in lines if len(line) > 120 and not line.startswith("|")]
    return [*wide, *([f"{len(lines)} lines"] if len(lines) > 130 else []), *([f"{len(rows)} rows"] if len(rows) > 25 else [])]


def test_it_is_short() -> None:
    assert too_long(PAGE) == []
    assert sum(map(len, SUMMARY.values())) <= 25


def test_a_page_that_is_too_long_is_found() -> None:
    rows = "| ours (paper) | test |\n|---|---|\n" + "| GIN | 0.1 |\n" * 26
    assert too_long(f"{'a' * 121}\n{BEGIN}\n{rows}{END}\n" + "\n" * 120) == ["a" * 121, "151 lines", "26 rows"]


def test_it_first_says_who_it_is_for() -> None:
    readers = (
        PAGE.index("| a researcher |"),
        PAGE.index("| a chemist |"),
        PAGE.index("| a user of PyG |"),
        PAGE.index("| a reader of the theory |"),
    )
    assert max(readers) < PAGE.index("    reign data example") < PAGE.index("](docs/pictures/molecule.svg)") < PAGE.index(BEGIN)
    for name in ("make demo", "make test"):
        assert f"`{name}`" in PAGE
    others = next(line for line in PAGE.splitlines() if line.startswith("| | reign |"))
    assert all(name in others for name in ("chemprop", "PyG", "the authors' code"))


def test_all_links_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^)]+)\)", PAGE) if not link.startswith("http")]
    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_its_commands_exist_and_need_no_other_file() -> None:
    """Each is a command with its options, and reads only what is written by the commands above it."""
    ours, made = [c for c in commands(PAGE) if not c.startswith(OF_A_CLONE)], set[str]()
    assert ours[0] == "reign data example"
    assert len(ours) >= 7
    for command in ours:
        words = command.split()
        assert words[0] == "reign"
        group = get_command(app)
        assert words[1] in group.commands, command  # type: ignore[attr-defined]
        read = set(re.findall(r"example/[\w.]+", command)) - ({words[words.index("-o") + 1]} if "-o" in words else set())
        assert read <= made | {"example/molecules.csv", "example/others.csv", "example/graphs.g6"}, command
        made |= {words[words.index("-o") + 1]} if "-o" in words else set()


def test_commands_are_read() -> None:
    page = "a\n\n    reign x -o y   # why\n    make z\n\n```python\n    no\n```\n"
    assert commands(page) == ["reign x -o y", "make z"]


def test_a_command_that_fails_warns_or_writes_nothing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for script, message in (
        ("raise SystemExit(3)", "ended with 3"),
        ("print('FutureWarning')", "warns"),
        ("", "did not write out"),
    ):
        (tmp_path / "reign.py").write_text(script)
        with pytest.raises(RuntimeError, match=message):
            run("reign train -o out")


@pytest.mark.slow
def test_every_command_runs_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    script = [sys.executable, str(ROOT / "tests" / "readme.py"), str(ROOT / "README.md")]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "reign explore" in done.stdout
