"""Options that several commands share."""

from typing import Annotated

import typer

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change any setting, as train.optimiser.lr=0.01; repeat for more."),
]
Accelerator = Annotated[str, typer.Option(help="Where to compute: auto (a GPU if there is one), cpu or cuda.")]
Devices = Annotated[int, typer.Option(help="Number of processes on this machine; torchrun works as well.")]
Nodes = Annotated[int, typer.Option(help="Number of machines.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Show no progress.")]
WithReport = Annotated[
    bool,
    typer.Option("--report/--no-report", envvar="REIGN_REPORT", help="Write report.html at the end, if matplotlib is installed."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--jobs",
        help="Number of models to train at once: as many as fit on a GPU, and one on a CPU, if not given. On a CPU they are processes.",
    ),
]
