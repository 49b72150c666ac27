"""Train many models: one after the other, as threads that take turns on a GPU, or as processes on a CPU."""

from collections.abc import Sequence

from reign.train.engine.callbacks import Callback
from reign.train.engine.execution import Fabric
from reign.train.job import Job
from reign.train.job_processes import run_in_processes
from reign.train.job_threads import JobThreads


def run_jobs(jobs: Sequence[Job], fabric: Fabric, callback: Callback, number: int | None = None) -> None:
    """Train models, several at once. If one fails, its ``error`` is set and the others continue.

    Args:
        jobs: the models.
        fabric: devices and processes.
        callback: receives all events; if several models are trained at once, each uses the callback returned by ``job``.
        number: number of models to train at once; None for as many as fit on a GPU, and one on a CPU.
    """
    alone = fabric.world_size > 1 or len(jobs) <= 1 or len({job.recipe.train.precision for job in jobs}) > 1
    if alone or number == 1 or (number is None and fabric.device.type != "cuda"):
        for job in jobs:
            if fabric.world_size > 1:
                job.run(fabric, callback)
            else:
                job.try_run(fabric, callback)
    elif fabric.device.type == "cuda":
        JobThreads(jobs, fabric, callback, number).run()
    else:
        run_in_processes(jobs, callback, number or 1)
