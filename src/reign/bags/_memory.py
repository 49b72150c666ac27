"""Check whether the pairs of a bag fit into memory, before they are allocated."""

import os
import warnings
from pathlib import Path

import torch

INDEX_BYTES = 20  # subgraph and node of a pair (8 + 8), membership (1), hop distance (2), and about one byte of marks
STATE_BYTES = 256  # one hidden state of 64 float32 channels, the default if the model is not known
SMALL = 2**22  # with fewer pairs the memory is not checked


class DoesNotFit(ValueError):
    """A bag has too many pairs for the free memory."""


def free_memory(device: torch.device) -> int:
    """The number of bytes that can still be allocated on a device, as far as is known."""
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_fits(num_pairs: int, device: torch.device, what: str, way_out: str, state_bytes: int = STATE_BYTES) -> None:
    """Raise ``DoesNotFit``, with the numbers of pairs and bytes and with advice, if ``num_pairs`` rows and one hidden state do not fit."""
    if num_pairs < SMALL:
        return
    free = free_memory(device)
    bag, state = num_pairs * INDEX_BYTES, num_pairs * state_bytes
    if bag + state > free:
        raise DoesNotFit(
            f"{what} makes {num_pairs:,} pairs (subgraph, node): {bag / 1e9:,.1f} GB for the bag and {state / 1e9:,.1f} GB "
            f"for one hidden state of {state_bytes} bytes per pair, but only {free / 1e9:,.1f} GB are free on {device}. {way_out}"
        )


def warn_of_size(nodes: int, num_pairs: int, what: str, way_out: str, state_bytes: int = STATE_BYTES) -> None:
    """Warn if all pairs of a single graph of ``nodes`` nodes are stored and there are many, before they use up the memory."""
    if num_pairs < SMALL:
        return
    state = num_pairs * state_bytes
    warnings.warn(
        f"{what} stores all {num_pairs:,} pairs (subgraph, node) of a graph of {nodes:,} nodes: {state / 1e9:,.1f} GB for one hidden state of "
        f"{state_bytes} bytes per pair. Every layer needs several of these, and training keeps them. {way_out}",
        stacklevel=4,
    )


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that there is not enough memory."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError | DoesNotFit):
        return True
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
