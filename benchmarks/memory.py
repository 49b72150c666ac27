"""Peak memory of this process (Linux)."""

from pathlib import Path


def peak_mb() -> float:
    """Peak memory since it was last reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def reset_peak() -> float:
    """Reset the peak, and return the memory in use."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()
