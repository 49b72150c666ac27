"""TensorBoard."""

from pathlib import Path

import pytest

from learning import learn


def test_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match="train.tensorboard needs tensorboard"):
        learn(config={"tensorboard": True}, folder=tmp_path)


def test_tensorboard_gets_the_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    written = []

    class Writer:
        def __init__(self, folder: str, purge_step: int) -> None:
            written.append((folder, purge_step))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, step))

        def flush(self) -> None: ...

        def close(self) -> None:
            written.append(("closed", 0))

    module = types.ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = Writer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    learn(config={"tensorboard": True}, folder=tmp_path)
    assert written[0] == (str(tmp_path), 0)
    assert {("train_loss", 2), ("val_mae", 0), ("lr", 1), ("closed", 0)} <= set(written)
