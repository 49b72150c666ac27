"""The cost of a training step: what is measured, what follows from it, and how it is shown."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from reign.experiments.bench import VERSIONS, Cost, Report, Workload, bench, bench_graphs, cost_table, explanations, kernel_table
from reign.experiments.measure import Kernel
from reign.experiments.steps import our_step, yardstick_step
from reign.kernels import blocked
from reign.nn import SUN

CPU = torch.device("cpu")
TINY = Workload(batch_size=4, hidden_channels=8, num_layers=1, device="cpu", repeats=1)


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches are computed in blocks, too."""
    monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=1))


def report(**changes: Any) -> Report:
    steps = {"plain": Cost(0.5, 300), "yardstick": Cost(1.0, 400)}
    fields: dict[str, Any] = {"policy": "ego+:3", "data": "ZINC-12k", "nodes": 2_900, "pairs": 71_469, "bytes_per_second": 4.2e12}
    environment = {"device_name": "x", "torch": "2", "cores": 2, "threads": 1}
    return Report(**{"workload": Workload(device="cpu"), "environment": environment, "steps": steps, **fields, **changes})


def shown(part: Any, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(part.rich())
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_floor_is_that_of_the_design() -> None:
    found = report()
    assert found.floor_bytes == 6 * 30 * 71_469 * 64 * 4
    assert found.floor_seconds == pytest.approx(0.784e-3, rel=1e-3)


def test_ratios_are_to_the_yardstick_and_the_floor() -> None:
    found = report(bytes_per_second=6 * 30 * 71_469 * 64 * 4 / 0.25).to_dict()["steps"]
    assert found["plain"]["speedup_over_yardstick"] == 2.0
    assert found["plain"]["share_of_yardstick_memory"] == 0.75
    assert found["plain"]["times_floor"] == pytest.approx(2.0)
    assert found["plain"]["graphs_per_second"] == 256.0
    assert found["yardstick"]["speedup_over_yardstick"] == found["yardstick"]["share_of_yardstick_memory"] == 1.0
    alone = report(steps={"plain": Cost(0.5, 300)}).to_dict()["steps"]["plain"]
    assert alone["speedup_over_yardstick"] is alone["share_of_yardstick_memory"] is None


def test_tables_show_all_that_was_measured() -> None:
    kernels = [Kernel(f"k{n}", 2.0, 1e-3) for n in range(20)]
    found = report(kernels=kernels, kernels_of="plain", store_bytes=5_000_000, notes=["Take note."])
    costs = shown(cost_table(found))
    assert "sun 6 x 64, ego+:3" in costs
    assert all(text in costs for text in ("plain", "yardstick", "500", "1,000", "256", "2.00", "0.75"))
    times = shown(kernel_table(found))
    assert "k14" in times
    assert "k15" not in times
    assert "5 more" in times
    assert "4.0%" in times  # 20 ms of 500
    text = "\n".join(explanations(found))
    assert all(part in text for part in ("2,900 nodes and 71,469 pairs: ZINC-12k", "0.784 ms", "5 MB on the GPU", "Take note."))
    assert "yardstick" not in "\n".join(explanations(report(steps={"plain": Cost(1.0, 1)})))


def test_long_names_of_kernels_leave_room_for_their_times() -> None:
    found = report(kernels=[Kernel("void name<" + "long" * 90, 12.0, 1.25e-4)], kernels_of="plain")
    assert all(text in shown(kernel_table(found), 80) for text in ("void name<long", " 12 ", "125.0", "share of the step"))


def test_sun_is_measured_beside_its_yardstick(blocks: None) -> None:
    found = bench(TINY)
    assert list(found.steps) == ["blocked", "plain", "yardstick"]
    assert all(cost.seconds > 0 and cost.peak_bytes > 4 * found.pairs * 8 for cost in found.steps.values())
    assert found.data.startswith("random graphs")
    assert 4 * 18**2 <= found.pairs <= 4 * 28**2
    assert found.kernels == []
    assert set(found.steps) <= set(VERSIONS)


def test_other_models_are_measured_beside_the_yardstick_of_sun(blocks: None) -> None:
    found = bench(replace(TINY, model="dss", policy="nm"))
    assert found.policy == "nm"
    assert "yardstick" in found.steps
    assert found.notes == ["The yardstick is SUN with policy nm, because there is none for DSS."]


def test_without_one_subgraph_per_node_there_is_no_yardstick(blocks: None) -> None:
    found = bench(replace(TINY, model="ds", policy="ed"))
    assert list(found.steps) == ["blocked", "plain"]
    assert found.notes == ["There is no yardstick for policy ed, which does not have one subgraph per node."]


@pytest.mark.parametrize("model", ["sun", "localfolklore"])  # a small batch, and layers for which there are no blocks
def test_where_training_uses_the_plain_step(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if model != "sun":
        monkeypatch.setattr(blocked, "LIMITS", replace(blocked.LIMITS, numbers=1))
    found = bench(replace(TINY, model=model))
    assert list(found.steps) == ["plain", "yardstick"]
    assert found.notes[0].startswith("Training uses the plain step here")


def test_steps_use_what_they_are_named_after(blocks: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU the first step computes layers in blocks, with threads for blocks only, as training does; the plain one does not."""
    problem, _ = bench_graphs(4)
    made: list[int] = []
    stage = blocked.PairStage

    def counted(*args: Any, **kwargs: Any) -> Any:
        made.append(torch.get_num_threads())
        return stage(*args, **kwargs)

    monkeypatch.setattr(blocked, "PairStage", counted)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        our_step(TINY.build(problem), problem, problem.splits["train"], CPU, fast=False)()
        assert made == []
        step = our_step(TINY.build(problem), problem, problem.splits["train"], CPU, fast=True)
        step()
        assert made == [1]
        assert step.optimiser.param_groups[0]["fused"]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_models_without_a_policy_take_none(blocks: None) -> None:
    assert list(bench(replace(TINY, model="mpnn")).steps) == ["blocked", "plain"]
    with pytest.raises(ValueError, match="policy is not an argument of MPNN"):
        bench(replace(TINY, model="mpnn", policy="nm"))


@pytest.mark.usefixtures("signatures_unchecked")
def test_a_step_learns(blocks: None) -> None:
    problem, _ = bench_graphs(4)
    ids = problem.splits["train"]
    for make in (
        lambda sun: our_step(sun, problem, ids, CPU, fast=True),
        lambda sun: our_step(sun, problem, ids, CPU, fast=False),
        lambda sun: yardstick_step(sun, problem, ids, CPU),
    ):
        sun = TINY.build(problem)
        assert isinstance(sun, SUN)
        step = make(sun)

        def loss(step: Any = step) -> float:
            out, y = step.forward()
            return float((out - y).detach().abs().mean())

        before = loss()
        for _ in range(20):
            step()
        assert loss() < 0.95 * before
        assert all(p.grad is None for p in sun.parameters())


def test_zinc_is_used_if_it_is_there(real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REIGN_DATA", str(real_data))
    monkeypatch.setenv("REIGN_CACHE", str(tmp_path))
    problem, data = bench_graphs(4)
    assert (problem.name, data) == ("zinc", "ZINC-12k")
    with pytest.raises(ValueError, match="batch_size is 10001, expected at most the 10000 training graphs"):
        bench_graphs(10_001)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"repeats": 0}, "repeats is 0, expected at least 1"),
        ({"device": "tpu"}, "device is 'tpu', expected 'auto', 'cpu' or 'cuda'"),
        ({"model": "sunn"}, "unknown model 'sunn'; did you mean 'sun'?"),
    ],
)
def test_a_wrong_workload_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        replace(TINY, **changes)
    assert message in str(error.value)


@pytest.mark.gpu
@pytest.mark.parametrize("model", ["sun", "dss"])
def test_all_versions_are_measured_on_a_gpu(model: str) -> None:
    found = bench(replace(TINY, model=model, batch_size=16, hidden_channels=16, device="cuda", repeats=3))
    assert list(found.steps) == ["resident", "fused", "plain", "yardstick"], found.notes
    assert found.kernels_of == "resident"
    assert 0 < sum(kernel.seconds for kernel in found.kernels) < 10 * found.steps["resident"].seconds
    assert found.steps["resident"].seconds < found.steps["plain"].seconds
    assert found.store_bytes is not None
    assert found.store_bytes > 0


@pytest.mark.gpu
def test_what_cannot_be_resident_is_said_on_a_gpu() -> None:
    found = bench(replace(TINY, model="dss", policy="nm@0.5", device="cuda"))
    assert "resident" not in found.steps
    assert any("draws new subgraphs at each step" in note for note in found.notes)
    assert found.kernels_of == "fused"
