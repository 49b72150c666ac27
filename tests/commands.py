"""Commands in this process, and what they are given."""

from typing import Any

from typer.testing import CliRunner

from reign.cli import app

MOLECULES = ["C" * n for n in range(1, 9)] + ["C" * n + "O" for n in range(1, 9)] + ["c1ccccc1" + "C" * n for n in range(8)]
SMALL = ["--set", "model.hidden_channels=4", "--set", "model.num_layers=1", "-b", "8", "--epochs", "2", "-q"]


def reign(*args: Any) -> Any:
    """A command in this process."""
    return CliRunner().invoke(app, list(map(str, args)), env={"COLUMNS": "200"})


def works(*args: Any) -> Any:
    done = reign(*args)
    assert done.exit_code == 0, (done.output, done.exception)
    return done


def fails(*args: Any) -> str:
    """The message of a command that must refuse."""
    done = reign(*args)
    assert done.exit_code == 2, (done.output, done.exception)
    assert "Traceback" not in done.output
    return str(done.stderr)
