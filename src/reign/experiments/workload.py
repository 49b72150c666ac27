"""The workload of ``reign bench``: a model of some size, and a batch of graphs."""

from dataclasses import dataclass

import torch

from reign._validate import check
from reign.data import Problem, load_problem, need_file
from reign.nn import Model, find_model
from reign.testing import random_graphs
from reign.train.build import make_model
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
