"""Norms over some rows."""

import torch
from torch import nn

from model_inputs import batch, run
from reign.nn import SUN, BatchNorm, make_norm, normalise


def test_batch_norm_over_some_rows() -> None:
    norm, plain = BatchNorm(3), nn.BatchNorm1d(3)
    x, rows = torch.randn(6, 3), torch.tensor([0, 2, 3])
    out = normalise(norm, x, rows)
    assert torch.equal(out[rows], plain(x[rows]))
    assert torch.equal(norm.running_mean, plain.running_mean)
    assert (out[[1, 4, 5]] == 0).all()
    before = norm.running_mean.clone()
    assert norm(x[:1]).isfinite().all()
    assert torch.equal(norm.running_mean, before)
    assert norm(x[:0]).shape == (0, 3)
    assert make_norm("LayerNorm", 3)(x).mean(1).abs().max() < 1e-6


def test_norms_can_be_replaced_by_synchronised_ones() -> None:
    model, data = SUN(3, 6, 2, 2), batch()
    run(model, data)  # the statistics are now those of these graphs
    before = run(model.eval(), data)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert any(isinstance(part, nn.SyncBatchNorm) for part in model.modules())
    torch.testing.assert_close(run(model, data), before)
