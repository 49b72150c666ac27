"""The cost of a training step on this machine, compared with a yardstick and with the lower bound given by memory bandwidth."""

import os
import platform
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from reign._validate import check
from reign._version import __version__
from reign.data import Ids, Problem, load_problem, need_file
from reign.experiments.measure import Kernel, KernelClock, added_bytes, copy_bandwidth, seconds_of
from reign.experiments.steps import PRECISION, EagerStep, ResidentStep, our_step, yardstick_step
from reign.kernels import kernels_for
from reign.nn import SUN, Model, find_model
from reign.tables import Table
from reign.testing import random_graphs
from reign.train.engine.batches import bag_of, shuffled
from reign.train.engine.execution import Execution, find_device
from reign.train.runs.build import make_model
from reign.train.settings.config import ModelConfig

POLICY = "ego+:3"


@dataclass(frozen=True)
class Workload:
    """The workload to measure: a model, the batch size, and the device.

    Args:
        model: name of the model.
        policy: name of the policy; "ego+:3" if not given (unless the model takes no policy).
        batch_size: number of graphs in a batch.
        hidden_channels: number of channels of the layers.
        num_layers: number of layers.
        device: "auto" (a GPU if there is one), "cpu" or "cuda".
        repeats: number of steps over which the median is taken.
    """

    model: str = "sun"
    policy: str | None = None
    batch_size: int = 128
    hidden_channels: int = 64
    num_layers: int = 6
    device: str = "auto"
    repeats: int = 10

    def __post_init__(self) -> None:
        for name in ("batch_size", "hidden_channels", "num_layers", "repeats"):
            check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        check("device", self.device, self.device in ("auto", "cpu", "cuda"), "'auto', 'cpu' or 'cuda'")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device is 'cuda', but this machine has no GPU; use 'cpu'.")
        find_model(self.model)

    def build(self, problem: Problem, name: str | None = None) -> Model:
        """The model for some graphs, or another one of the same sizes and with the same policy."""
        kind = find_model(name or self.model)
        policy = {"policy": self.policy or POLICY} if self.policy or kind.takes_policy else {}
        config = ModelConfig(name=name or self.model, hidden_channels=self.hidden_channels, num_layers=self.num_layers, **policy)
        return make_model(config, problem, 0)


def bench_graphs(batch_size: int) -> tuple[Problem, str]:
    """ZINC-12k if its file is in the folder REIGN_DATA, otherwise random graphs of similar sizes, with a description."""
    try:
        need_file("zinc12k.npz", "ZINC-12k")
    except ValueError:
        return _random_molecules(batch_size), "random graphs (ZINC-12k is used if REIGN_DATA is the folder of zinc12k.npz)"
    problem = load_problem("zinc")
    number = problem.splits["train"].numel()
    check("batch_size", batch_size, batch_size <= number, f"at most the {number} training graphs of ZINC-12k")
    return problem, "ZINC-12k"


def _random_molecules(number: int) -> Problem:
    graphs = random_graphs(number, min_nodes=18, max_nodes=28, edge_prob=0.09)
    rng = torch.Generator().manual_seed(0)
    for data in graphs:
        data.x = torch.randint(0, 21, (data.num_nodes, 1), generator=rng)
        data.edge_attr = torch.randint(0, 4, (data.num_edges // 2, 1), generator=rng).repeat(2, 1)
        data.y = torch.randn(1, 1, generator=rng)
    return Problem.of(graphs, name="random graphs", node_encoder=21, edge_encoder=4)


# -- the measurements ----------------------------------------------------------------------------------------------------------

SHOWN = 15  # number of kernels with their own row
PASSES = 30  # passes over the pair rows in a layer: 10 forward, 20 backward
VERSIONS = {
    "resident": "one CUDA graph, with batches assembled on the GPU",
    "fused": "separate operations, with fused kernels",
    "blocked": "as in training on a CPU, with layers in blocks of rows that stay in the cache",
    "plain": "separate operations, plain PyTorch",
    "yardstick": "SUN written in plain torch_geometric on a disjoint union of subgraphs, which is made before the step",
}


@dataclass(frozen=True)
class Cost:
    """The median time of a step, and its peak memory in bytes minus the memory held between steps."""

    seconds: float
    peak_bytes: int


@dataclass
class Report:
    """The measurements. The version that training uses on this device comes first in ``steps``.

    Args:
        workload: the workload that was measured.
        policy, data: the policy, and the source of the graphs.
        nodes, pairs: numbers of nodes and of pairs (subgraph, node) of the batch.
        bytes_per_second: bytes that a large copy reads and writes per second.
        environment: date, versions and machine.
        steps: the cost of each version of the step.
        store_bytes: GPU memory of the bags of the whole data set.
        frame_bytes: other GPU memory held between steps: the index maps of a batch, and the state of the optimiser.
        kernels, kernels_of: the kernels of a step on a GPU, slowest first, and the version that they belong to.
        notes: notes for the user.
    """

    workload: Workload
    policy: str
    data: str
    nodes: int
    pairs: int
    bytes_per_second: float
    environment: dict[str, object]
    steps: dict[str, Cost] = field(default_factory=dict)
    store_bytes: int | None = None
    frame_bytes: int | None = None
    kernels: list[Kernel] = field(default_factory=list)
    kernels_of: str | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def floor_bytes(self) -> int:
        """The bytes that a step moves if each layer passes ``PASSES`` times over the pair rows, in 32-bit numbers."""
        return PASSES * self.workload.num_layers * self.pairs * self.workload.hidden_channels * 4

    @property
    def floor_seconds(self) -> float:
        """The time that this takes at the speed of a large copy."""
        return self.floor_bytes / self.bytes_per_second

    def to_dict(self) -> dict[str, Any]:
        """All measurements, and the figures derived from them, as plain values."""
        yardstick = self.steps.get("yardstick")
        steps = {}
        for name, cost in self.steps.items():
            steps[name] = {
                **asdict(cost),
                "graphs_per_second": self.workload.batch_size / cost.seconds,
                "times_floor": cost.seconds / self.floor_seconds,
                "speedup_over_yardstick": None if yardstick is None else yardstick.seconds / cost.seconds,
                "share_of_yardstick_memory": None if yardstick is None else cost.peak_bytes / yardstick.peak_bytes,
            }
        floor = {"seconds": self.floor_seconds, "bytes": self.floor_bytes, "bytes_per_second": self.bytes_per_second}
        return {
            **asdict(self.workload),
            **{name: getattr(self, name) for name in ("policy", "data", "nodes", "pairs")},
            "precision": PRECISION,
            "environment": self.environment,
            "steps": steps,
            "floor": floor,
            "store_bytes": self.store_bytes,
            "frame_bytes": self.frame_bytes,
            "kernels_of": self.kernels_of,
            "kernels": [asdict(kernel) for kernel in self.kernels],
            "notes": self.notes,
        }


def bench(workload: Workload) -> Report:
    """Measure all versions of the training step of a model, with the same batch."""
    device = find_device(workload.device)
    problem, data = bench_graphs(workload.batch_size)
    ids = next(shuffled(problem.splits["train"], workload.batch_size, 0))
    model = workload.build(problem)
    bag = bag_of(model, problem.graphs.to(dtype=torch.float32), ids)
    report = Report(
        workload=replace(workload, device=device.type),
        policy=str(model.policy),
        data=data,
        nodes=bag.num_nodes,
        pairs=bag.num_pairs,
        bytes_per_second=copy_bandwidth(device, workload.repeats),
        environment=_environment(device),
    )
    if device.type == "cuda":
        _measure_resident(report, problem, ids)
    steps = {"plain": our_step(workload.build(problem), problem, ids, device, fast=False)}
    if (fast := _fast_version(model, bag.num_pairs, device)) is not None:
        steps = {fast: our_step(workload.build(problem), problem, ids, device, fast=True), **steps}
    elif device.type == "cpu":
        report.notes.append(
            f"Training uses the plain step here: the layers of {type(model).__name__} cannot be computed in blocks of rows, or the batch is too small."
        )
    if model.policy.node_based:
        sun = workload.build(problem, "sun")
        assert isinstance(sun, SUN)
        steps["yardstick"] = yardstick_step(sun, problem, ids, device)
        if not isinstance(model, SUN):
            report.notes.append(f"The yardstick is SUN with policy {sun.policy}, because there is none for {type(model).__name__}.")
    else:
        report.notes.append(f"There is no yardstick for policy {model.policy}, which does not have one subgraph per node.")
    _measure_eager(report, steps, device)
    return report


def _fast_version(model: Model, pairs: int, device: torch.device) -> str | None:
    """The version with fused kernels or blocks of rows; None if training uses plain operations for this batch."""
    if device.type == "cuda":
        return "fused" if kernels_for(torch.zeros(1, device=device)) is not None else None
    return "blocked" if model.uses_blocks(pairs) else None


def _measure_resident(report: Report, problem: Problem, ids: Ids) -> None:
    try:
        step = ResidentStep(report.workload.build(problem), problem, ids)
    except RuntimeError as error:  # training would then also run separate operations
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        report.notes.append(f"There is no resident step: {reason}.")
        return
    report.steps["resident"] = Cost(step.seconds(report.workload.repeats), step.added_bytes)
    report.store_bytes, report.frame_bytes = step.store_bytes, step.frame_bytes
    report.kernels, report.kernels_of = step.profile(), "resident"


def _measure_eager(report: Report, steps: dict[str, EagerStep], device: torch.device) -> None:
    with Execution(device).memory():  # as in training
        times = seconds_of(steps, device, report.workload.repeats)
    for name, seconds in times.items():
        report.steps[name] = Cost(seconds, added_bytes(steps[name], device))
    if device.type == "cuda" and report.kernels_of is None:
        name, step = next(iter(steps.items()))
        clock = KernelClock()
        clock.start()
        step()
        clock.stop()
        report.kernels, report.kernels_of = clock.kernels(1), name


def _environment(device: torch.device) -> dict[str, object]:
    gpu = device.type == "cuda"
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "reign": __version__,
        "torch": torch.__version__,
        "device_name": torch.cuda.get_device_name(device) if gpu else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def cost_table(report: Report) -> Table:
    """Time and memory of every version of the step, compared with the yardstick and the floor."""
    work = report.workload
    rows = []
    for name, cost in report.to_dict()["steps"].items():
        ratios = [cost["speedup_over_yardstick"], cost["share_of_yardstick_memory"]]
        rows.append(
            [
                name,
                milliseconds(cost["seconds"]),
                f"{cost['graphs_per_second']:,.0f}",
                f"{cost['peak_bytes'] / 1e6:,.1f}",
                *("" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                f"{cost['times_floor']:.1f}",
            ]
        )
    columns = ["step", "ms", "graphs/s", "memory MB", "speed-up", "memory share", "x floor"]
    return Table(f"Training step of {work.model} {work.num_layers} x {work.hidden_channels}, {report.policy}", columns, rows)


def kernel_table(report: Report) -> Table:
    """The kernels of a step that take the most time."""
    assert report.kernels_of is not None
    whole = report.steps[report.kernels_of].seconds

    def row(name: str, kernels: list[Kernel]) -> list[str]:
        seconds = sum(kernel.seconds for kernel in kernels)
        name = name if len(name) <= 36 else f"{name[:35]}…"  # names can be very long
        return [name, f"{sum(kernel.calls for kernel in kernels):g}", f"{1e6 * seconds:,.1f}", f"{seconds / whole:.1%}"]

    rows = [row(kernel.name, [kernel]) for kernel in report.kernels[:SHOWN]]
    if rest := report.kernels[SHOWN:]:
        rows.append(row(f"{len(rest)} more", rest))
    rows += [[], row("all", report.kernels)]
    return Table(f"Kernels of the {report.kernels_of} step", ["kernel", "calls", "us", "share of the step"], rows)


def explanations(report: Report) -> list[str]:
    """Explanations of the figures in the table, and how they were measured."""
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


def milliseconds(seconds: float) -> str:
    """A time in milliseconds, with three digits or more."""
    value = 1000 * seconds
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
