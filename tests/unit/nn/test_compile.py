"""torch.compile takes a whole model in one graph; in a process without the checks of signatures, which it cannot trace."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
import torch
from torch_geometric.data import Batch
import reign
from reign.testing import random_graphs

torch.manual_seed(0)
data = Batch.from_data_list(random_graphs(5, min_nodes=3, edge_dim=2))
model = reign.nn.SUN(3, 8, 2, 1, policy="ego+:2", edge_dim=2)
bag = model.prepare(data.x, model.policy.from_data(data))
start = {name: value.clone() for name, value in model.state_dict().items()}

def step(function):
    model.load_state_dict(start)
    model.zero_grad()
    out = function(data.x, data.edge_index, bag=bag)
    out.sum().backward()
    return [out.detach(), *(p.grad for p in model.parameters())]

plain, compiled = step(model), step(torch.compile(model, fullgraph=True, backend=sys.argv[1]))
print(max(float((a - b).abs().max()) for a, b in zip(plain, compiled, strict=True)))
"""


def difference(backend: str) -> float:
    done = subprocess.run([sys.executable, "-c", SCRIPT, backend], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout)


def test_the_model_is_one_graph() -> None:
    assert difference("aot_eager") < 1e-5


@pytest.mark.slow
def test_inductor() -> None:
    assert difference("inductor") < 1e-4
