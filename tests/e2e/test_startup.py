"""The first second: help without torch, groups of options, shell completion, and Ctrl-C. ``benchmarks/startup.py`` measures times."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
WIDTH, LINES, GROUP = 100, 75, 8  # a page of help, and the number of options that can be read as one group
HELP = """
import json, sys
from typer.main import get_command
from typer.testing import CliRunner
from reign.cli import app

def paths(command, path):
    yield path, [command.help or "", *(getattr(option, "help", None) or "" for option in command.params)]
    for name, each in getattr(command, "commands", {}).items():
        yield from paths(each, [*path, name])

found = {}
for path, texts in paths(get_command(app), []):
    done = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "100"})
    large = [name for name in ("torch", "torch_geometric", "numpy", "lightning") if name in sys.modules]
    found[" ".join(path)] = [done.exit_code, done.output, large, texts]
print(json.dumps(found))
"""
Pages = dict[str, tuple[int, str, list[str], list[str]]]
HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # background jobs of a shell ignore it
INTERRUPTED = """
import os, signal, sys, time

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)

sys.meta_path.insert(0, Finder())
from reign.__main__ import main
main()
"""
PARSING = """
import typer.core
from reign.__main__ import main

def interrupted(*args, **options):
    raise KeyboardInterrupt

typer.core.TyperGroup.make_context = interrupted
main()
"""


def python(code: str, *args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"} | environment
    return subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, env=env)


@pytest.fixture(scope="module")
def pages() -> Pages:
    """For every command the exit code of its help, the page, which large packages have been loaded by then, and the texts of the page."""
    done = python(HELP)
    assert done.returncode == 0, done.stderr
    found: Pages = json.loads(done.stdout)
    return found


def test_no_help_loads_torch(pages: Pages) -> None:
    assert {"", "train", "predict", "evaluate", "separate", "bench", "models", "data", "data info"} <= set(pages)
    for name, (status, page, large, _) in pages.items():
        assert status == 0, name
        assert large == [], f"reign {name} --help loads {large}: import them inside the function of the command"
        assert "Usage:" in page


def test_help_is_short_and_in_groups(pages: Pages) -> None:
    for name, (_, page, _, _) in pages.items():
        lines = [line.rstrip() for line in page.splitlines() if line.strip()]
        assert len(lines) <= LINES, name
        assert max(map(len, lines)) <= WIDTH, name
        groups = page.split("╭─ ")[1:]
        for group in groups:
            title, options = (
                group.split(" ─")[0],
                [line for line in group.splitlines() if line.startswith(("│ --", "│ *  --", "│    --"))],
            )
            assert len(options) <= GROUP, f"reign {name} --help has {len(options)} options under {title}"


def test_help_shows_every_word(pages: Pages) -> None:
    """Brackets, as in x[k, i], would be taken for markup and left out; line breaks inside a paragraph would stay."""
    for name, (_, page, _, texts) in pages.items():
        shown = " ".join(page.replace("│", " ").split())
        for text in texts:
            for paragraph in text.split("\n\n"):
                assert " ".join(paragraph.split()) in shown, f"reign {name} --help"
                assert "\n" not in paragraph.strip(), f"reign {name} --help: {paragraph}"


def test_commands_stand_in_groups(pages: Pages) -> None:
    page = pages[""][1]
    assert "─ Commands ─" not in page  # where typer puts a command without a group
    assert page.index("Train and predict") < page.index("│ train ") < page.index("Theory") < page.index("│ separate ")


def test_next_to_nothing_is_imported_before_ctrl_c_is_heard() -> None:
    code = "import sys; before = set(sys.modules)\nimport reign.__main__\nprint(*sorted(set(sys.modules) - before))"
    loaded = python(code).stdout.split()
    assert [name for name in loaded if name.startswith("reign")] == ["reign", "reign.__main__", "reign._version"]
    assert not {"typing", "pathlib", "re", "typer"} & set(loaded)


@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [("reign ", "1", "predict"), ("reign tr", "1", "train"), ("reign train --ep", "2", "--epochs"), ("reign data in", "2", "info")],
)
def test_shell_completion(words: str, place: str, expected: str) -> None:
    code = "import sys\nfrom reign.__main__ import main\ntry: main()\nfinally: print('torch' in sys.modules, file=sys.stderr)"
    done = python(code, _REIGN_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert expected in done.stdout.split()
    assert done.stderr == "False\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell(shell: str) -> None:
    code = "from reign.__main__ import main; main()"
    done = python(code, "--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert f"_REIGN_COMPLETE=complete_{shell}" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["reign.cli", "typer", "reign.cli.options", "rich.table", "torch"])
def test_ctrl_c_in_the_middle_of_an_import(name: str) -> None:
    done = python(HEARD + INTERRUPTED.format(name=name), "train", "zinc/sun-ego", "-o", "/nowhere/run")
    assert (done.returncode, done.stderr) == (2, "reign: stopped.\n")


@pytest.mark.parametrize(("given", "found"), [(None, "64"), ("7", "7")])
def test_onednn_keeps_few_products(monkeypatch: pytest.MonkeyPatch, given: str | None, found: str) -> None:
    """They take most of the memory that ``reign predict`` would need for more rows. A number of your own counts."""
    monkeypatch.delenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", raising=False)
    if given is not None:
        monkeypatch.setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", given)
    code = "import atexit, os; atexit.register(lambda: print(os.environ['ONEDNN_PRIMITIVE_CACHE_CAPACITY']))\n"
    done = python(code + "from reign.__main__ import main; main()", "--version")
    assert done.stdout.splitlines()[-1] == found


def test_ctrl_c_while_arguments_are_read() -> None:
    done = python(HEARD + PARSING, "train", "zinc/sun-ego", "-o", "/nowhere/run")
    assert (done.returncode, done.stderr) == (2, "reign: stopped.\n")
