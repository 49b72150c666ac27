"""Devices and processes."""

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
import torch.distributed as dist
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce
from torch.optim import Optimizer

from reign._validate import check
from reign.kernels import fast_path, keep_freed_memory, threads_for_blocks_only
from reign.nn import BatchNorm

# -- Several processes that give the same result as one: the statistics of batch norms range over the rows of all processes


class SyncedBatchNorm(BatchNorm):
    """Batch norm whose statistics range over the rows of all processes. A process may have any number of rows, even none."""

    def forward(self, x: Float[Tensor, "rows channels"]) -> Float[Tensor, "rows channels"]:
        """Normalise this process's rows."""
        if not self.training or not several():
            return super().forward(x)
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        count = wide.new_tensor([wide.size(0)])
        dist.all_reduce(count)
        rows = float(count)
        if rows < 2:
            return self._with(x, self.running_mean, self.running_var)
        mean = all_reduce(wide.sum(0)) / rows
        variance = all_reduce((wide - mean).square().sum(0)) / rows
        with torch.no_grad():
            self._track(self.running_mean, mean)
            self._track(self.running_var, variance * rows / (rows - 1))
            if self.num_batches_tracked is not None:
                self.num_batches_tracked += 1
        return self._with(x, mean, variance)

    def _track(self, kept: Tensor | None, new: Tensor) -> None:
        if kept is not None:
            kept.lerp_(new.to(kept.dtype), self.momentum or 0.0)

    def _with(self, x: Tensor, mean: Any, variance: Any) -> Tensor:
        out = (x - mean) * torch.rsqrt(variance + self.eps)
        return (out * self.weight + self.bias).to(x.dtype)


def synchronise(model: nn.Module) -> nn.Module:
    """Make all batch norms of a model use the rows of all processes. Weights and their names do not change."""
    for module in model.modules():
        if type(module) in (BatchNorm, nn.BatchNorm1d):
            module.__class__ = SyncedBatchNorm
    return model


def total(value: Shaped[Tensor, "*size"]) -> Shaped[Tensor, "*size"]:
    """The sum of a value over all processes."""
    if several():
        value = value.clone()
        dist.all_reduce(value)
    return value


def most(value: int) -> int:
    """The maximum of a value over all processes."""
    if not several():
        return value
    tensor = torch.tensor([value], device="cuda" if dist.get_backend() == "nccl" else "cpu")
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return int(tensor)


def several() -> bool:
    """Whether there are several processes."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


# -- The number formats of a model: of its weights, and of matrix products ---------------------------------------------


PROCESSOR = Path("/proc/cpuinfo")  # on Linux
MANY = 2**26  # rows times input and output channels of products for which oneDNN is worth its preparations

_lock = threading.Lock()
_users = 0  # contexts on a CPU that are open, in all threads: the setting belongs to the whole process
_usual = "highest"  # the setting before the first of them


def dtype_of(precision: str) -> torch.dtype:
    """The number format of weights, features and targets."""
    return torch.float64 if precision == "64-true" else torch.float32


@contextmanager
def number_format(device: torch.device, precision: str, rows: int = 0, channels: int = 64) -> Iterator[None]:
    """The number format of matrix products, which is the same in training and in prediction.

    "bf16-mixed" uses bfloat16. "32-true" uses float32; on GPUs its products are computed in TF32 (fewer digits, accumulated in float32),
    and on a CPU by the faster library (see ``onednn_pays``). "32-ieee" uses full float32 everywhere, from PyTorch's default library.

    Args:
        device: where products are computed.
        precision: the name of the format.
        rows: number of pairs (subgraph, node) that are computed together, or of nodes if the model has no subgraphs; 0 if it is not known.
        channels: number of channels of the layers (see ``width``).
    """
    with _products(device, precision, rows * channels**2), bfloat16_products(device, precision == "bf16-mixed"):
        yield


def _products(device: torch.device, precision: str, size: int) -> AbstractContextManager[None]:
    """The precision of float32 products, in PyTorch's words."""
    if device.type == "cuda" and precision in ("32-true", "bf16-mixed"):
        return _precision("high")
    if precision == "32-ieee":
        return _precision("highest") if device.type == "cuda" else _precision_on_cpu("highest")
    if device.type == "cpu" and precision == "32-true" and size >= MANY and onednn_pays():
        return _precision_on_cpu("medium")
    return nullcontext()


def width(model: nn.Module) -> int:
    """The number of channels of the layers of a model; 64 if it does not say."""
    return int(getattr(model, "hidden_channels", 64))


@contextmanager
def _precision(name: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def _precision_on_cpu(name: str) -> Iterator[None]:
    """The same where threads compute at the same time: the last one to leave restores the setting of the first one to enter."""
    global _users, _usual
    with _lock:
        _usual = _usual if _users else torch.get_float32_matmul_precision()
        _users += 1
        torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                torch.set_float32_matmul_precision(_usual)


@cache
def onednn_pays() -> bool:
    """Whether oneDNN computes float32 products faster than MKL on this processor, with as many digits.

    PyTorch takes MKL, and oneDNN only where products may have fewer digits ("medium"). But MKL does not use AVX-512 on processors of AMD, where
    oneDNN takes half the time. It computes all digits if the processor has no matrix units for bfloat16 (AMX).
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkl.is_available():
        return False
    if not torch.backends.mkldnn.is_available() or not PROCESSOR.is_file() or "AuthenticAMD" not in PROCESSOR.read_text():
        return False
    exact = torch.linspace(-1, 1, 64 * 64, dtype=torch.float64, device="cpu").view(64, 64)
    with torch.autocast("cpu", enabled=False), _precision_on_cpu("medium"):
        return bool((exact.float() @ exact.float() - exact @ exact).abs().max() < 1e-3)


def bfloat16_products(device: torch.device, enabled: bool = True) -> torch.autocast:
    """Matrix products in bfloat16. Weights are converted at every use: they may change in between, and a CUDA graph reads them anew."""
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)


# -- The interface of devices and processes: the part of Lightning's Fabric that training uses -------------------------
# A single process does not need Lightning, which takes seconds to import. Several processes use a Fabric.


@runtime_checkable
class Fabric(Protocol):
    """A device, and a process among others. ``lightning.fabric.Fabric`` has this interface."""

    @property
    def device(self) -> torch.device:
        """The device of this process."""

    @property
    def world_size(self) -> int:
        """The number of processes."""

    @property
    def global_rank(self) -> int:
        """The rank of this process."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this is the first process, which writes files."""

    def setup(self, module: nn.Module, *optimisers: Optimizer) -> Any:
        """Prepare a model and its optimiser."""

    def backward(self, tensor: Tensor) -> None:
        """Compute gradients, and average them over processes."""

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[Any]:
        """A context in which gradients are not averaged over processes."""

    def barrier(self) -> None:
        """Wait for all processes."""

    def broadcast(self, obj: Any) -> Any:
        """The object of the first process."""


class OneProcess:
    """One process on one device.

    Args:
        device: the device.
        precision: "32-true", or "bf16-mixed" for products in bfloat16.
    """

    world_size = 1
    global_rank = 0
    is_global_zero = True

    def __init__(self, device: torch.device, precision: str = "32-true") -> None:
        self.device, self.precision = device, precision

    def setup(self, module: nn.Module, *optimisers: Optimizer) -> Any:
        """Return the model on the device, in the form that training calls, and the optimisers unchanged."""
        module.to(self.device)
        called: Any = _Bfloat16(module, self.device) if self.precision == "bf16-mixed" else module
        return (called, *optimisers) if optimisers else called

    def backward(self, tensor: Tensor) -> None:
        """Compute gradients."""
        tensor.backward()

    def no_backward_sync(self, module: Any, enabled: bool = True) -> AbstractContextManager[Any]:
        """Do nothing, because gradients are not averaged."""
        return nullcontext()

    def barrier(self) -> None:
        """Do nothing, because there are no other processes."""

    def broadcast(self, obj: Any) -> Any:
        """The object itself."""
        return obj


class _Bfloat16(nn.Module):
    """A model whose products are computed in bfloat16, and whose outputs are float32."""

    def __init__(self, module: nn.Module, device: torch.device) -> None:
        super().__init__()
        self.module, self.device = module, device

    def forward(self, *args: Any, **more: Any) -> Tensor:
        with bfloat16_products(self.device):
            out: Tensor = self.module(*args, **more)
        return out.float()


def precision_of(fabric: Any) -> str:
    """The precision that a fabric was made for."""
    return str(fabric.precision if isinstance(fabric, OneProcess) else fabric._precision.precision)


# -- Devices and processes ---------------------------------------------------------------------------------------------


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
    # in float64 the model itself is float64: nothing has to be converted
    mixed: Any = "bf16-mixed" if precision == "bf16-mixed" else "32-true"
    if devices * num_nodes == 1:
        return OneProcess(torch.device("cuda", torch.cuda.current_device()) if accelerator == "cuda" else device, mixed)
    from lightning import fabric as lightning
    from lightning.fabric.strategies.ddp import DDPStrategy

    fabric = lightning.Fabric(
        accelerator=accelerator, devices=devices, num_nodes=num_nodes, strategy=DDPStrategy(), precision=mixed
    )
    fabric.launch()
    return fabric


# -- Random numbers that depend only on the seed and the number of the epoch -------------------------------------------


def epoch_seed(seed: int, epoch: int) -> int:
    """A seed for an epoch, distinct from those of all other epochs and seeds."""
    return (seed * 1_000_003 + epoch * 7_919 + 17) % 2**31


def seed_model(model: nn.Module, seed: int) -> None:
    """Seed dropout and sampled subgraphs."""
    torch.manual_seed(seed)
    policy = getattr(model, "policy", None)
    while policy is not None:
        if isinstance(generator := getattr(policy, "generator", None), torch.Generator):
            generator.manual_seed(seed)
        policy = getattr(policy, "policy", None)


def gpu_generator(device: torch.device | None = None) -> torch.Generator:
    """The generator of random numbers of a GPU, by default of the current one."""
    index = None if device is None else device.index
    return torch.cuda.default_generators[torch.cuda.current_device() if index is None else index]


@dataclass(frozen=True)
class Execution:
    """How a model computes.

    Args:
        device: where it computes.
        precision: the number format, as in ``TrainingConfig``.
        eager: whether it computes in plain operations.
    """

    device: torch.device
    precision: str = "32-true"
    eager: bool = False

    @contextmanager
    def operations(self, rows: int = 0, channels: int = 64) -> Iterator[None]:
        """The number format of products (see ``number_format``), and fused kernels or blocks of rows unless operations are plain."""
        with number_format(self.device, self.precision, rows, channels), fast_path(not self.eager):
            yield

    def threads(self, model: nn.Module) -> AbstractContextManager[None]:
        """A context in which threads work only on blocks of rows, if all layers are computed in blocks, as some are on a CPU; otherwise it has no effect."""
        plain = self.eager or self.device.type != "cpu" or self.precision == "bf16-mixed"
        return threads_for_blocks_only() if not plain and getattr(model, "in_blocks", False) else nullcontext()

    def memory(self) -> AbstractContextManager[None]:
        """On a CPU, a context in which freed memory stays with the process."""
        return keep_freed_memory() if self.device.type == "cpu" else nullcontext()
