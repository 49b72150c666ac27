"""What commands share: errors without tracebacks, names of files, and the class of all commands."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperOption

from reign.cli.chemprop import is_number, translate

if TYPE_CHECKING:
    from reign.train.settings.config import DataConfig

WORDS = {"--ensemble-with": ("forest", "gp")}  # values of an option that may follow each other where a recipe may follow, too


def fail(message: str) -> NoReturn:
    """Print an error message, and exit with code 2."""
    typer.echo(f"reign: {message}", err=True)
    raise typer.Exit(2)


def plain_console(stderr: bool = False) -> Console:
    """A console that prints text literally: brackets in the names of files and columns are not markup."""
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def show_predict_command(console: Console, data: "DataConfig", model: Path) -> None:
    """Print the command that predicts with a model of molecules."""
    from reign.train.runs.share import predict_command

    if (command := predict_command(data, model)) is not None:
        console.print(f"Predict with: {command}", soft_wrap=True)


@contextmanager
def user_mistakes() -> Iterator[None]:
    """Turn a user's mistakes into one line and exit code 2: a ``ValueError``, a file that cannot be read or written, a missing package."""
    try:
        yield
    except KeyboardInterrupt:
        fail("stopped.")
    except (ValueError, OSError) as error:
        fail(str(error))
    except MemoryError:
        fail("this machine has too little memory; use smaller batches, models or graphs.")
    except ModuleNotFoundError as missing:
        if str(missing.name).split(".")[0] in ("pyarrow", "ray"):  # extras of their own, which the message names
            fail(str(missing))
        fail(
            f"{missing.name} is not installed; pip install 'reign[train,chem,plot,tune]' installs everything that the commands need."
        )


def check_writable(file: Path | None) -> None:
    """Check before the work that a file can be written."""
    from reign.disk import check_writable as check

    if file is not None:
        check(file)


def at_least_one(name: str, value: int | None) -> None:
    """Check that a number is at least 1."""
    if value is not None and value < 1:
        fail(f"{name} is {value}, expected at least 1.")


def stem(file: Path) -> str:
    """The name of a table without .csv, .csv.gz or a similar ending.

    >>> stem(Path("molecules.CSV.gz"))
    'molecules'
    """
    name = file.name
    for ending in (".gz", ".bz2", ".xz", ".zip", ".csv", ".tsv", ".parquet", ".pq"):
        name = name[: -len(ending)] if name.lower().endswith(ending) else name
    return name or file.name


def next_to(table: Path, what: str) -> Path:
    """The usual output for a table: a CSV next to it, a Parquet file next to a Parquet file, or a folder next to a folder."""
    if table.is_dir():
        return table.with_name(f"{table.absolute().name}_{what}")
    return table.with_name(f"{stem(table)}_{what}{table.suffix if table.suffix.lower() in ('.parquet', '.pq') else '.csv'}")


def free(folder: Path) -> Path:
    """A folder that does not exist yet: the given one, or its name with a number added."""
    number, found = 2, folder
    while found.exists():
        found = folder.with_name(f"{folder.name}-{number}")
        number += 1
    return found


# -- the class of all commands -------------------------------------------------------------------------------------------------


RENAMED = {  # old spellings of options, which keep working, by command
    "separate": {"--float": "--approximate", "--each": "--per-pair"},
    "bench": {"--device": "--accelerator"},
}


class Command(TyperCommand):
    """A command whose options take several values in a row, as in chemprop (``--split-sizes 0.8 0.1 0.1``), or one value once.

    An option that can be repeated takes all words up to the next option. If a command also has an argument, such as the recipe of ``reign train``, such an
    option takes only numbers, unless a table is given with -i.

    An option of one value that is given twice is refused, because one of the values would be ignored. A flag may be repeated, but not together with
    its opposite. Mistakes of users are one line, see ``user_mistakes``.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with user_mistakes():
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Check that options of one value are given once, and parse the words."""
        words = self._repeated(args if ctx.resilient_parsing else self._present(args))
        if not ctx.resilient_parsing:  # a shell that completes an unfinished line has nothing to refuse
            _, _, order = self.make_parser(ctx).parse_args(list(words))
            for option, times in Counter(order).items():
                if not isinstance(option, TyperOption) or option.multiple or option.count:
                    continue
                names = "/".join([*option.opts, *option.secondary_opts])
                if not option.is_flag and times > 1:
                    fail(f"{names} is given {times} times, but takes one value; give it once.")
                if option.is_flag and all(set(words) & set(forms) for forms in (option.opts, option.secondary_opts)):
                    fail(f"{names} is given in both forms; give one of them.")
        return super().parse_args(ctx, words)

    def _present(self, args: list[str]) -> list[str]:
        """The words, with old names of options, and those of chemprop, replaced by the present ones."""
        renamed = RENAMED.get(str(self.name), {})
        parts = [arg.partition("=") for arg in args]
        own = {name for option in self.params for name in (*option.opts, *option.secondary_opts)}
        with user_mistakes():
            return list(translate(str(self.name), [renamed.get(name, name) + sign + value for name, sign, value in parts], own))

    def _repeated(self, args: list[str]) -> list[str]:
        """The words, with the name of a repeated option before each of its values."""
        several = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        own = any(option.param_type_name == "argument" for option in self.params)
        words_too = not own or any(arg in ("-i", "--data-path") or arg.startswith("--data-path=") for arg in args)
        out: list[str] = []
        name: str | None = None
        taken = 0
        for arg in args:
            if arg.startswith("-") and not is_number(arg):
                name, taken = (arg if arg in several else None), 0
            elif name is not None:
                taken += 1
                if taken > 1 and (words_too or is_number(arg) or arg in WORDS.get(name, ())):
                    out.append(name)
                elif taken > 1:
                    name = None
            out.append(arg)
        return out
