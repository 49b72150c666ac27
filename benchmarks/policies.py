"""The time and memory needed to build bags on a CPU.

1. ZINC-12k, EGO+(3), 10,000 training graphs: membership and all index maps, against a loop over nodes with
   ``torch_geometric.utils.k_hop_subgraph`` (timed on 500 graphs, and scaled). Checked equal first.
2. The 620-node graph of PROTEINS under ego:2: what the bag adds to memory besides features.
3. A random graph of 20,000 nodes of mean degree 4 under ego:2 with domain members; with domain all, the error.

Run with ``make bench``; the real graphs come from the folder REIGN_DATA.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from memory import peak_mb, reset_peak
from torch import Tensor
from torch_geometric.data import Batch, Data
from torch_geometric.utils import k_hop_subgraph

import reign
from reign.data import read_arrays, unpack


def load(file: Path, prefix: str = "") -> list[Data]:
    """Graphs of a file of the common layout, each undirected edge once."""
    arrays = read_arrays(file)
    sizes = np.diff(arrays[f"{prefix}node_ptr"])
    return unpack(sizes, arrays[f"{prefix}edge_ptr"], arrays[f"{prefix}edge_uv"], None, torch.zeros(len(sizes)))


def by_loop(graphs: list[Data], hops: int) -> tuple[Tensor, float]:
    """Compute the membership of every pair by a loop over nodes, and measure the time."""
    start = time.perf_counter()
    members = []
    for data in graphs:
        for root in range(data.num_nodes):
            nodes, _, _, _ = k_hop_subgraph(root, hops, data.edge_index, num_nodes=data.num_nodes)
            members.append(torch.zeros(data.num_nodes, dtype=torch.bool).index_fill_(0, nodes, True))
    return torch.cat(members), time.perf_counter() - start


def zinc(folder: Path) -> None:
    """Build the bags of the training set at once and in batches of 128, and compare with the loop."""
    graphs = load(folder / "zinc12k.npz", "train_")
    policy = reign.policy("ego+:3")
    expected, seconds = by_loop(graphs[:500], 3)
    assert torch.equal(policy.from_data(Batch.from_data_list(graphs[:500])).member, expected)
    loop = seconds * sum(d.num_nodes for d in graphs) / sum(d.num_nodes for d in graphs[:500])
    print(f"ZINC-12k train, EGO+(3): loop with k_hop_subgraph {loop:.1f} s for {len(graphs):,} graphs (500 timed)")
    for size in (128, len(graphs)):
        batches = [Batch.from_data_list(graphs[i : i + size]) for i in range(0, len(graphs), size)]
        policy.from_data(batches[0])  # warm up
        start = time.perf_counter()
        bags = [policy.from_data(batch) for batch in batches]
        maps = [(bag.pair_batch, bag.root_row, bag.transpose) for bag in bags]
        ours = time.perf_counter() - start
        edges = sum(bag.pair_edges.edge.numel() for bag in bags)
        with_edges = time.perf_counter() - start
        pairs = sum(row.numel() for row, _, _ in maps)
        print(
            f"  batches of {size:>6,}: membership and maps {ours:.2f} s, {loop / ours:.0f} times faster; with the edges of all "
            f"subgraphs {with_edges:.2f} s, {loop / with_edges:.0f} times ({pairs:,} pairs, {edges:,} edges)"
        )
        del batches, bags, maps


def measured(task: str) -> None:
    """Run one task in a fresh process, so that its peak memory is its own."""
    subprocess.run([sys.executable, __file__, task], check=True)


def proteins(folder: Path) -> None:
    """Memory of the largest bag of PROTEINS."""
    data = max(load(folder / "tu_PROTEINS.npz"), key=lambda d: d.num_nodes)
    before = reset_peak()
    bag = reign.policy("ego:2").from_data(data)
    maps = bag.pair_batch.numel() + bag.root_row.numel() + bag.transpose.numel() + bag.pair_edges.edge.numel()
    assert maps
    print(f"PROTEINS, {data.num_nodes} nodes, ego:2: {bag.num_pairs:,} pairs; with all maps +{peak_mb() - before:.0f} MB (peak)")


def large() -> None:
    """A graph whose pairs cannot all be stored."""
    n = 20_000
    edges = torch.randint(0, n, (2, 2 * n), generator=torch.Generator().manual_seed(0))
    data = Data(x=torch.ones(n, 1), edge_index=torch.cat([edges, edges.flip(0)], dim=1))
    before = reset_peak()
    start = time.perf_counter()
    bag = reign.policy("ego:2").from_data(data, domain="members")
    edge_count = bag.pair_edges.edge.numel()
    seconds = time.perf_counter() - start
    print(
        f"{n:,} nodes, ego:2, domain members: {bag.num_pairs:,} pairs, {edge_count:,} edges in {seconds:.2f} s, "
        f"+{peak_mb() - before:.0f} MB (peak of the process {peak_mb():.0f} MB)"
    )
    try:
        reign.policy("ego:2").from_data(data)
        raise AssertionError("domain all fits on this machine")
    except ValueError as error:
        print(f"  domain all: {error}")


def main() -> None:
    """Run all measurements, or only the given task."""
    folder = os.environ.get("REIGN_DATA")
    if sys.argv[1:] == ["proteins"]:
        proteins(Path(str(folder)))
    elif sys.argv[1:] == ["large"]:
        large()
    else:
        if folder:
            zinc(Path(folder))
            measured("proteins")
        else:
            print("REIGN_DATA is not set: ZINC-12k and PROTEINS are left out")
        measured("large")


if __name__ == "__main__":
    main()
