"""How long it takes until the first step of a training on a GPU is done, and where the time goes.

    python benchmarks/first_step.py zinc/sun-ego
    TRITON_CACHE_DIR=$(mktemp -d) python benchmarks/first_step.py zinc/sun-ego     # all kernels are compiled

The command is ``reign train RECIPE``, which is stopped after ten steps. Seconds are counted from the start of the process. On a machine where the
libraries have never been imported, the first run also compiles their byte code.
"""

import os
import sys
import tempfile
from pathlib import Path

STEPS = (1, 2, 3, 4, 10)


def now() -> float:
    """Seconds since this process was started."""
    ticks = float(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
    return float(Path("/proc/uptime").read_text().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Train for ten steps."""
    if len(sys.argv) != 2:
        sys.exit("usage: python benchmarks/first_step.py RECIPE")
    recipe, marks = sys.argv[1], [("start", now())]
    import torch
    import torch_geometric  # noqa: F401

    marks.append(("torch and torch_geometric", now()))
    from reign.__main__ import main as reign
    from reign.train.engine.captured import CapturedStep, StepRunner

    if not torch.cuda.is_available():
        sys.exit("this machine has no GPU.")
    marks.append(("all imports", now()))
    play, steps = StepRunner.play, 0

    def counted(player: StepRunner, played: CapturedStep) -> None:
        nonlocal steps
        if steps == 0:
            marks.append(("bags", now()))
        play(player, played)
        steps += 1
        if steps in STEPS:
            torch.cuda.synchronize()
            marks.append((f"step {steps}", now()))
        if steps == STEPS[-1]:
            print(recipe, *(f"{name} {seconds:.1f}" for name, seconds in marks), sep=", ", flush=True)
            os._exit(0)

    setattr(StepRunner, "play", counted)  # noqa: B010
    sys.argv = ["reign", "train", recipe, "--seeds", "1", "-o", f"{tempfile.mkdtemp()}/run", "--quiet", "--no-report"]
    reign()


if __name__ == "__main__":
    main()
