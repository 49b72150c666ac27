"""Tables for the terminal: the cost of a training step, and its kernels."""

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from reign.experiments.bench import Report
    from reign.experiments.measure import Kernel

SHOWN = 15  # number of kernels with their own row


def cost_table(report: "Report") -> Table:
    """Time and memory of every version of the step, compared with the yardstick and the floor."""
    work = report.workload
    table = Table(title=f"Training step of {work.model} {work.num_layers} x {work.hidden_channels}, {report.policy}")
    for column in ("step", "ms", "graphs/s", "memory MB", "speed-up", "memory share", "x floor"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for name, cost in report.to_dict()["steps"].items():
        speedup, share = cost["speedup_over_yardstick"], cost["share_of_yardstick_memory"]
        table.add_row(
            name,
            milliseconds(cost["seconds"]),
            f"{cost['graphs_per_second']:,.0f}",
            f"{cost['peak_bytes'] / 1e6:,.1f}",
            "" if speedup is None else f"{speedup:.2f}",
            "" if share is None else f"{share:.2f}",
            f"{cost['times_floor']:.1f}",
        )
    return table


def explanations(report: "Report") -> list[str]:
    """Explanations of the figures in the table, and how they were measured."""
    from reign.experiments.bench import VERSIONS

    work, where = report.workload, report.environment
    threads = "1 thread" if where["threads"] == 1 else f"{where['threads']} threads"
    device = where["device_name"] if work.device == "cuda" else f"CPU with {where['cores']} cores, {threads}"
    lines = [
        f"{device}, torch {where['torch']}. {work.batch_size} graphs with {report.nodes:,} nodes and {report.pairs:,} pairs: {report.data}.",
        *(f"{name}: {VERSIONS[name]}." for name in report.steps),
        "A step is a forward pass, a backward pass and an Adam update. Its memory is its peak minus the memory held between steps.",
        f"Floor: a step reads and writes at least {report.floor_bytes / 1e6:,.0f} MB; at {report.bytes_per_second / 1e9:,.1f} GB/s, the "
        f"speed of a large copy, this takes {milliseconds(report.floor_seconds)} ms.",
    ]
    if "yardstick" in report.steps:
        lines.append("Speed-up and memory share are relative to the yardstick.")
    if report.store_bytes is not None:
        lines.append(
            f"The bags of the whole data set take {report.store_bytes / 1e6:,.0f} MB on the GPU, the index maps of a batch and the optimiser "
            f"{(report.frame_bytes or 0) / 1e6:,.0f} MB."
        )
    return lines + report.notes


def kernel_table(report: "Report") -> Table:
    """The kernels of a step that take the most time."""
    assert report.kernels_of is not None
    whole = report.steps[report.kernels_of].seconds
    table = Table(title=f"Kernels of the {report.kernels_of} step")
    table.add_column("kernel", no_wrap=True, max_width=36)  # names can be very long
    for column in ("calls", "us", "share of the step"):
        table.add_column(column, justify="right", no_wrap=True)

    def add(name: str, kernels: "list[Kernel]") -> None:
        seconds = sum(kernel.seconds for kernel in kernels)
        table.add_row(name, f"{sum(kernel.calls for kernel in kernels):g}", f"{1e6 * seconds:,.1f}", f"{seconds / whole:.1%}")

    for kernel in report.kernels[:SHOWN]:
        add(kernel.name, [kernel])
    if rest := report.kernels[SHOWN:]:
        add(f"{len(rest)} more", rest)
    table.add_section()
    add("all", report.kernels)
    return table


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, with three digits or more."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
