"""Check that models give the same results on a GPU as on a CPU, and measure the cost of a step. Run on a machine with CUDA:

PYTHONPATH=src:benchmarks python benchmarks/gpu.py
"""

import time
from collections.abc import Callable
from statistics import median

import torch
from layers import VERSIONS, make_step, zinc_batch
from torch import Tensor
from torch_geometric.data import Batch

import reign
from reign.testing import assert_bags_equal, random_graphs

POLICIES = ["null", "nd", "nm", "nm+distance", "ego:2", "ego+:3", "ego+distance:2", "ed", "2-nm", "2-ego:1", "whole"]


def same_bags(graphs: Batch) -> None:
    """Check that bags built on the GPU equal those built on the CPU."""
    for name in POLICIES:
        for domain in ("all", "members"):
            policy = reign.policy(name)
            on_gpu = policy.from_data(graphs.clone().to("cuda"), domain=domain)
            assert_bags_equal(on_gpu.to("cpu"), policy.from_data(graphs, domain=domain))
    print(f"bags of {len(POLICIES)} policies in both domains equal those of the CPU")


def same_answers(graphs: Batch) -> None:
    """Check the outputs and gradients of every model in float64 in training mode, and that they are the same in two runs."""
    worst = 0.0
    for name in reign.list_models():
        results = []
        for device in ("cpu", "cuda", "cuda"):
            torch.manual_seed(0)
            model = reign.build_model(name, 3, 16, 3, 2).double().to(device)
            data = graphs.clone().to(device)
            out = model(data.x, data.edge_index, batch=data.batch)
            out.pow(2).sum().backward()
            results.append([out.detach().cpu(), *(p.grad.cpu() for p in model.parameters() if p.grad is not None)])
        largest = max(float(a.abs().max()) for a in results[0])  # gradients of biases before a norm are zero up to rounding
        worst = max(worst, *(float((a - b).abs().max()) / largest for a, b in zip(results[0], results[1], strict=True)))
        repeat = max(float((a - b).abs().max()) for a, b in zip(results[1], results[2], strict=True))
        print(f"  {name:18s} run to run on the GPU: {'bit for bit the same' if repeat == 0 else f'{repeat:.1e} apart'}")
    print(f"outputs and gradients of {len(reign.list_models())} models equal those of the CPU to {worst:.1e} of the largest entry")
    assert worst < 1e-8


def milliseconds(run: Callable[[], object], repeats: int = 20) -> float:
    """Median time of a call on the GPU."""
    for _ in range(3):
        run()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1000 * median(times)


def cost() -> None:
    """Measure SUN 6 x 64 on a ZINC batch of 128: our step and the yardsticks, both eager, and the time to build the bag."""
    batch = zinc_batch().to("cuda")
    torch.set_float32_matmul_precision("high")
    times = {}
    for version in VERSIONS:
        step = make_step(version, batch)
        torch.cuda.reset_peak_memory_stats()
        times[version] = milliseconds(step)
        mb, ratio = torch.cuda.max_memory_allocated() / 1e6, times[version] / times["ours"]
        print(f"  {version:22s} {times[version]:.1f} ms, {mb:,.0f} MB, {ratio:.2f} x ours")
    policy = reign.policy("ego+:3")
    print(f"  building the bag       {milliseconds(lambda: policy.from_data(batch)):.1f} ms")
    model = make_step("ours", batch).model  # type: ignore[attr-defined]

    def whole() -> Tensor:
        loss = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch).pow(2).mean()
        loss.backward()
        return loss

    print(f"  bag, maps and step     {milliseconds(whole):.1f} ms")


def main() -> None:
    """Run the checks, then measure."""
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    graphs = Batch.from_data_list(random_graphs(12, min_nodes=1, max_nodes=9, edge_prob=0.4, dtype=torch.float64))
    same_bags(graphs)
    same_answers(graphs)
    cost()


if __name__ == "__main__":
    main()
