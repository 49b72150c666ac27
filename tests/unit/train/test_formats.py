"""Number formats."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from torch import nn

import tiny
from learning import learn, model
from reign.train import formats
from reign.train.formats import number_format, onednn_pays
from reign.train.processes import OneProcess

CPU = torch.device("cpu")


def test_bfloat16_sees_weights_that_change() -> None:
    linear, x = nn.Linear(2, 3), torch.ones(4, 2)
    wrapped = OneProcess(CPU, "bf16-mixed").setup(linear)
    with number_format(CPU, "bf16-mixed"):
        for module in (linear, wrapped):
            before = module(x)
            with torch.no_grad():
                linear.weight += 1
            torch.testing.assert_close(module(x), before + 2, atol=0.05, rtol=0.05)


def test_one_process_gives_float32_and_bounds_gradients() -> None:
    linear = nn.Linear(2, 3)
    process = OneProcess(CPU, "bf16-mixed")
    wrapped, optimiser = process.setup(linear, torch.optim.SGD(linear.parameters(), 0.1))
    out = wrapped(torch.full((4, 2), 1e3))
    assert out.dtype == torch.float32
    process.backward(out.sum())
    process.clip_gradients(wrapped, optimiser, max_norm=0.5)
    gradient = torch.cat([p.grad.flatten() for p in linear.parameters() if p.grad is not None])
    assert abs(float(gradient.norm()) - 0.5) < 1e-3


@pytest.mark.parametrize("pays", [True, False])
def test_precision_of_products_is_restored(pays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "onednn_pays", lambda: pays)
    before = torch.get_float32_matmul_precision()
    found = {}
    for precision in ("32-true", "32-ieee", "64-true", "bf16-mixed"):
        with number_format(CPU, precision):
            found[precision] = torch.get_float32_matmul_precision()
        assert torch.get_float32_matmul_precision() == before
        with pytest.raises(ZeroDivisionError), number_format(CPU, precision):
            1 / 0  # noqa: B018
        assert torch.get_float32_matmul_precision() == before
    assert found == {**dict.fromkeys(found, before), "32-true": "medium" if pays else before}
    with number_format(CPU, "32-true", rows=formats.MANY - 1):
        assert torch.get_float32_matmul_precision() == before


def test_products_have_all_digits() -> None:
    a = torch.rand(300, 200, generator=torch.Generator().manual_seed(0))
    with number_format(CPU, "32-true"):
        assert float(((a @ a.t()).double() - a.double() @ a.t().double()).abs().max()) < 1e-3  # in bfloat16 it is about 0.2


def _answer(monkeypatch: pytest.MonkeyPatch, processor: Path, capability: str = "AVX512") -> bool:
    monkeypatch.setattr(formats, "PROCESSOR", processor)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    return onednn_pays.__wrapped__()


def test_onednn_pays_where_mkl_leaves_instructions_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amd, intel = tmp_path / "amd", tmp_path / "intel"
    amd.write_text("vendor_id : AuthenticAMD")
    intel.write_text("vendor_id : GenuineIntel")
    exact, few = formats._precision_of_products, 0

    @contextmanager
    def fewer_digits(name: str | None) -> Iterator[None]:
        nonlocal few
        few += 1
        with torch.autocast("cpu", torch.bfloat16):
            yield

    monkeypatch.setattr(formats, "_precision_of_products", lambda name: exact(None))  # float32 on any processor
    assert _answer(monkeypatch, amd)
    assert not _answer(monkeypatch, intel)
    assert not _answer(monkeypatch, tmp_path / "another system")
    assert not _answer(monkeypatch, amd, "AVX2")
    monkeypatch.setattr(formats, "_precision_of_products", fewer_digits)
    assert not _answer(monkeypatch, amd)
    assert few == 1


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize(("rows", "expected"), [(100, "medium"), (10_000, "highest")])
def test_training_and_prediction_look_at_the_rows_of_a_batch(rows: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "onednn_pays", lambda: True)
    monkeypatch.setattr(formats, "MANY", rows)  # a batch has some hundred pairs
    net, graphs, found = model(), tiny.problem(), set()
    graphs.splits["train"] = torch.arange(12)
    net.register_forward_hook(lambda *_: found.add((net.training, torch.get_float32_matmul_precision())))
    learn(net, graphs, config={"batch_size": 12, "epochs": 1})
    assert found == {(True, expected), (False, expected)}
