"""``reign explore``: the explorer in the browser."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import machine_option
from reign.cli.tools import fail, plain_console, user_mistakes


def explore(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a run that learned from molecules, to see what it predicts.")
    ] = None,
    port: Annotated[int, machine_option(help="Port of this machine; any that is free if it is 0.")] = 0,
    open_browser: Annotated[bool, machine_option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Look at bags, models and predictions in the browser.

    Draw a graph or paste a SMILES, pick a policy, and step through the subgraphs; see what WL tests and models say about two graphs.

    The page comes from this machine, and can be reached from it alone, by the address that is printed. Ctrl-C ends it.
    """
    if not 0 <= port < 65536:
        fail(f"--port is {port}, expected 0 to 65535.")
    with user_mistakes():
        from reign.explore import Answers, Explorer

        server = Explorer(Answers(run), port)
    console = plain_console()
    console.print(f"The explorer is at {server.address}", soft_wrap=True)
    console.print("Ctrl-C ends it.")
    if open_browser:
        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("The explorer has ended.")
    finally:
        server.server_close()
