"""Devices and processes."""

import os
from typing import Any

import torch

from reign._validate import check
from reign.train.processes import Fabric, OneProcess


def find_device(accelerator: str = "auto") -> torch.device:
    """The device to compute on: "cpu", "gpu" (or "cuda"), or with "auto" a GPU if there is one."""
    check("accelerator", accelerator, accelerator in ("auto", "cpu", "cuda", "gpu"), "'auto', 'cpu' or 'gpu'")
    if accelerator in ("cuda", "gpu") and not torch.cuda.is_available():
        raise ValueError(f"accelerator is '{accelerator}', but this machine has no GPU; use 'cpu'.")
    return torch.device("cuda" if accelerator != "cpu" and torch.cuda.is_available() else "cpu")


def make_fabric(precision: str = "32-true", accelerator: str = "auto", devices: int = 1, num_nodes: int = 1) -> Fabric:
    """Set up one or several processes: those that ``torchrun`` started, or ``devices`` processes on each of ``num_nodes`` machines.

    Args:
        precision: "32-true", "32-ieee", "64-true" or "bf16-mixed".
        accelerator: "auto", "cpu" or "gpu".
        devices: number of processes on this machine.
        num_nodes: number of machines.
    """
    if "TORCHELASTIC_RUN_ID" in os.environ:
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        num_nodes = int(os.environ["WORLD_SIZE"]) // devices
    check("devices", devices, devices >= 1, "at least 1")
    device = find_device(accelerator)
    accelerator = device.type
    if accelerator == "cuda" and devices > torch.cuda.device_count():
        raise ValueError(
            f"devices is {devices}, but this machine has {torch.cuda.device_count()} GPUs; use fewer devices, or accelerator='cpu'."
        )
    mixed: Any = (
        "bf16-mixed" if precision == "bf16-mixed" else "32-true"
    )  # in float64 the model itself is float64: nothing has to be converted
    if devices * num_nodes == 1:
        return OneProcess(torch.device("cuda", torch.cuda.current_device()) if accelerator == "cuda" else device, mixed)
    from lightning import fabric as lightning
    from lightning.fabric.strategies.ddp import DDPStrategy

    fabric = lightning.Fabric(
        accelerator=accelerator, devices=devices, num_nodes=num_nodes, strategy=DDPStrategy(), precision=mixed
    )
    fabric.launch()
    return fabric
