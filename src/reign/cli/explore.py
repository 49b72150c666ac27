"""``reign explore``: the explorer in the browser."""

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from reign.cli.options import machine_option
from reign.cli.tools import fail, plain_console, user_mistakes


def explore(
    run: Annotated[
        Path | None, typer.Argument(help="Folder of a run that was trained on molecules, to show its predictions.")
    ] = None,
    port: Annotated[int, machine_option(help="Port on this machine; 0 for any free port.")] = 0,
    open_browser: Annotated[bool, machine_option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Explore bags, models and predictions in the browser.

    Draw a graph or paste a SMILES, choose a policy, and step through the subgraphs; see which WL tests and models tell two graphs apart.

    The page is served from this machine, and can be opened only on this machine, at the printed address. Press Ctrl-C to stop it.
    """
    if not 0 <= port < 65536:
        fail(f"--port is {port}, expected 0 to 65535.")
    with user_mistakes():
        from reign.explore import Answers, Explorer

        server = Explorer(Answers(run), port)
    console = plain_console()
    try:
        console.print(f"The explorer is at {server.address}\nPress Ctrl-C to stop it.", soft_wrap=True)
        if open_browser:
            webbrowser.open(server.address)
        server.serve_forever()
    except KeyboardInterrupt:
        console.print("The explorer was stopped.")
    finally:
        server.server_close()
