"""Number formats."""

from pathlib import Path

import pytest
import torch
from torch import nn

import tiny
from learning import learn, model
from reign.train.engine import execution
from reign.train.engine.execution import OneProcess, number_format, onednn_pays

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


def test_one_process_gives_float32() -> None:
    linear = nn.Linear(2, 3)
    process = OneProcess(CPU, "bf16-mixed")
    wrapped, _ = process.setup(linear, torch.optim.SGD(linear.parameters(), 0.1))
    out = wrapped(torch.full((4, 2), 1e3))
    assert out.dtype == torch.float32
    process.backward(out.sum())
    assert all(p.grad is not None for p in linear.parameters())


@pytest.mark.parametrize("pays", [True, False])
@pytest.mark.parametrize("before", ["highest", "high"])
def test_precision_of_products_is_restored(pays: bool, before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "onednn_pays", lambda: pays)
    found = {}
    with execution._precision(before):
        for precision in ("32-true", "32-ieee", "64-true", "bf16-mixed"):
            with number_format(CPU, precision, execution.MANY, 1):
                found[precision] = torch.get_float32_matmul_precision()
            assert torch.get_float32_matmul_precision() == before
            with pytest.raises(ZeroDivisionError), number_format(CPU, precision, execution.MANY, 1):
                1 / 0  # noqa: B018
            assert torch.get_float32_matmul_precision() == before
        assert found == {"32-true": "medium" if pays else before, "32-ieee": "highest", "64-true": before, "bf16-mixed": before}
        with number_format(CPU, "32-true", execution.MANY - 1, 1):
            assert torch.get_float32_matmul_precision() == before
        with number_format(CPU, "32-true", execution.MANY // 4, 2):  # products grow with the square of the channels
            assert torch.get_float32_matmul_precision() == ("medium" if pays else before)


def test_contexts_of_threads_may_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one to enter is the first one to leave; afterwards the setting is what it was before both."""
    monkeypatch.setattr(execution, "onednn_pays", lambda: True)
    before = torch.get_float32_matmul_precision()
    first, second = (number_format(CPU, "32-true", execution.MANY, 1) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == "medium"
    second.__exit__(None, None, None)
    assert torch.get_float32_matmul_precision() == before


def test_onednn_pays_where_mkl_leaves_instructions_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amd, intel = tmp_path / "amd", tmp_path / "intel"
    amd.write_text("vendor_id : AuthenticAMD")
    intel.write_text("vendor_id : GenuineIntel")
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: True)

    def answer(processor: Path, capability: str = "AVX512", few_digits: bool = False) -> bool:
        products = torch.autocast("cpu", torch.bfloat16, enabled=few_digits)
        monkeypatch.setattr(execution, "_precision_on_cpu", lambda name: products)  # the digits of another processor
        monkeypatch.setattr(execution, "PROCESSOR", processor)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
        return onednn_pays.__wrapped__()

    assert answer(amd)
    assert not answer(intel)
    assert not answer(tmp_path / "another system")
    assert not answer(amd, "AVX2")
    assert not answer(amd, few_digits=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert answer(amd)  # wherever the question is asked first
    for library in (torch.backends.mkl, torch.backends.mkldnn):
        with monkeypatch.context() as without:
            without.setattr(library, "is_available", lambda: False)
            assert not answer(amd)


@pytest.mark.usefixtures("signatures_unchecked")
@pytest.mark.parametrize(("rows", "expected"), [(100, "medium"), (10_000, "highest")])
def test_training_and_prediction_look_at_the_rows_of_a_batch(rows: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "onednn_pays", lambda: True)
    monkeypatch.setattr(execution, "MANY", rows * execution.width(model()) ** 2)  # a batch has some hundred pairs
    net, graphs, found = model(), tiny.problem(), set()
    graphs.splits["train"] = torch.arange(12)
    net.register_forward_hook(lambda *_: found.add((net.training, torch.get_float32_matmul_precision())))
    learn(net, graphs, config={"batch_size": 12, "epochs": 1})
    assert found == {(True, expected), (False, expected)}
