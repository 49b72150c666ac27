"""``reign results``: the experiments that have been run at full length."""

from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import output_option
from reign.cli.tools import fail, plain_console, user_mistakes

Results = Annotated[Path, typer.Argument(help="Folder with the records of full-length runs.", metavar="FOLDER")]


def results(
    folder: Results = Path("results"),
    add: Annotated[
        Path | None,
        typer.Option(metavar="RUNS", help="First add the finished runs of a table, such as runs/zinc from reign reproduce zinc."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="The table of the added runs; the name of their folder if not given.")] = None,
    commit: Annotated[
        str | None, typer.Option(help="The commit that the added runs were made with, if they did not note it.")
    ] = None,
    write: Annotated[
        bool,
        output_option(
            "--write", help="Write the tables to FOLDER/README.md, and a summary between the markers in the README next to FOLDER."
        ),
    ] = False,
) -> None:
    """Show full-length results next to the paper's numbers, and what has not been run yet."""
    with user_mistakes():
        from reign.experiments import find_table
        from reign.experiments.evidence import progress_table
        from reign.experiments.pages import results_markdown, write_pages
        from reign.experiments.records import read_records, record_table

        console = plain_console()
        if add is not None:
            name = table or add.name
            files = record_table(add, name, find_table(name), folder, commit)
            if not files:
                fail(
                    f"{add} holds no finished run of the table {name}, expected folders {add}/ROW/COLUMN as written by reign reproduce."
                )
            console.print(
                f"{len(files)} {'run' if len(files) == 1 else 'runs'} added: {', '.join(map(str, files))}", soft_wrap=True
            )
        records = read_records(folder)
        if not records:
            fail(f"{folder} holds no records; add runs with --add.")
        if write:
            for file in write_pages(folder, records):
                console.print(f"{file} was written.", soft_wrap=True)
        console.print(results_markdown(records), soft_wrap=True, highlight=False)
        console.print(progress_table(records).rich())


def show_status(folder: Path) -> None:
    """Show which planned runs are done, which are missing, and how long these would take."""
    from reign.experiments.evidence import progress_table
    from reign.experiments.records import read_records

    plain_console().print(progress_table(read_records(folder)).rich())
