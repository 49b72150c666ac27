"""The learner: what it refuses, and what its steps are."""

from typing import Any

import pytest
import torch

import tiny
from learning import learn, model
from reign.nn import SUN


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"loss": "bce"}, "the loss is 'bce', but the task is regression; expected one of mse, l1"),
        ({"metric": "accuracy"}, "the metric is 'accuracy', but the task is regression; expected one of rmse, mae, log10_mse"),
        ({"precision": "bf16-mixed"}, "but the precision of the fabric is"),
    ],
)
def test_settings_that_do_not_suit(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        learn(config=config)


def test_the_model_must_give_as_many_values_as_there_are_targets() -> None:
    torch.manual_seed(0)
    with pytest.raises(ValueError, match="make it with out_channels=1"):
        learn(SUN(1, 8, 2, 3, policy="ego+:2"))


@pytest.mark.usefixtures("signatures_unchecked")
def test_accumulated_batches_are_one_step_along_their_mean() -> None:
    """Without norms, two batches of equal size give the step of the one batch they make."""
    graphs = tiny.problem()
    graphs.splits["train"] = torch.arange(12)
    ends = []
    for config in ({"batch_size": 12}, {"batch_size": 6, "accumulate": 2}, {"batch_size": 12, "max_pairs": 80}):
        net = model(norm=None).double()
        learn(net, graphs, config={"epochs": 3, "precision": "64-true", **config})
        ends.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
    torch.testing.assert_close(ends[1], ends[0], atol=1e-10, rtol=0)
    torch.testing.assert_close(ends[2], ends[0], atol=1e-10, rtol=0)
