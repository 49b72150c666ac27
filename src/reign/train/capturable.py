"""Fused optimisers, which update all weights at once; in a CUDA graph they keep their state on the device. Their state on disk does not change."""

from typing import Any

import torch
from torch import Tensor


def make_fused(optimiser: torch.optim.Optimizer) -> None:
    """Update all weights in one operation."""
    for group in optimiser.param_groups:
        group["fused"], group["foreach"] = True, False


def make_capturable(optimiser: torch.optim.Optimizer, device: torch.device) -> None:
    """Keep the learning rate and the step counters on the device, and use the fused optimiser."""
    make_fused(optimiser)
    optimiser._opt_called = True  # type: ignore[attr-defined]  # schedules warn otherwise: they do not see the steps of a graph
    for group in optimiser.param_groups:
        if not isinstance(group["lr"], Tensor):
            group["lr"] = torch.tensor(float(group["lr"]), device=device)
        if "capturable" in group:
            group["capturable"] = device.type == "cuda"
    for state in optimiser.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].to(device, torch.float32)


def make_plain(optimiser: torch.optim.Optimizer) -> None:
    """Undo ``make_capturable``."""
    vars(optimiser).pop("found_inf", None)
    for group in optimiser.param_groups:
        group |= _plain(group)
    for state in optimiser.state.values():
        if isinstance(state.get("step"), Tensor):
            state["step"] = state["step"].cpu()


def portable(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an optimiser as it is written to disk; it does not depend on whether CUDA graphs are used."""
    return {**state, "param_groups": [group | _plain(group) for group in state["param_groups"]]}


def _plain(group: dict[str, Any]) -> dict[str, Any]:
    lr = group["lr"]
    lr = float(f"{float(lr):.7g}") if isinstance(lr, Tensor) else lr  # the device stores float32
    return {"lr": lr, "fused": None, "foreach": None, **({"capturable": False} if "capturable" in group else {})}
