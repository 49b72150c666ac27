"""Tables on a Ray cluster, with Ray Data. Each table is a task of an actor that holds the models.

If an actor is killed, Ray starts another one, which continues the table where complete chunks end.
"""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from reign.train.engine.callbacks import Callback
from reign.train.partial import Written
from reign.train.predictor import Predictor, load
from reign.train.shards import Shard, finish


class Actor:
    """A process of the cluster that predicts for one table after another.

    Args:
        models, device, best: as in ``load``.
        options: further arguments of ``Predictor.stream``.
    """

    def __init__(self, models: list[str], device: str, best: bool, options: dict[str, Any]) -> None:
        self.predictor, self.options = load(*models, device=device, best=best), options

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Predict for a table. A mistake in it is returned, and does not stop the other tables."""
        table, target = Path(row["table"]), Path(row["target"])
        try:
            done = finish(self.predictor, (table, target), self.options, Callback())
        except (ValueError, OSError) as error:
            return {"target": str(target), "rows": 0, "failed": 0, "warned": 0, "wrong": str(error)}
        return {"target": str(target), "rows": done.rows, "failed": done.failed, "warned": done.warned, "wrong": ""}


def predict_on_ray(
    predictor: Predictor, shards: Sequence[Shard], num_actors: int | None, options: dict[str, Any]
) -> Iterator[Written]:
    """Predict for tables, in the order in which they are done. Afterwards, ``ValueError`` names a table that could not be predicted.

    Args:
        predictor, num_actors, options: as in ``predict_folder``. Each actor loads the models again.
        shards: the tables, and the tables to write.
    """
    try:
        import ray
        import ray.data
    except ModuleNotFoundError as missing:
        raise ModuleNotFoundError(
            "--engine ray needs Ray Data: pip install 'reign[scale]', on all machines of the cluster.", name=missing.name
        ) from None
    options = {**options, "num_workers": options.get("num_workers") or 0}  # the cores are those of the actors
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, logging_level=logging.ERROR)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        device = predictor.models[0].device
        gpu = device.type == "cuda"
        kind = "GPU" if gpu else "CPU"
        free = int(ray.cluster_resources().get(kind, 1))
        ray.data.DataContext.get_current().enable_progress_bars = False
        items = [{"table": str(table.absolute()), "target": str(target.absolute())} for table, target in shards]
        made = ray.data.from_items(items, override_num_blocks=len(items)).map(
            Actor,
            fn_constructor_args=([str(path.absolute()) for path in predictor.paths], device.type, predictor.best, options),
            compute=ray.data.ActorPoolStrategy(size=max(1, min(num_actors or free, len(items)))),
            **({"num_gpus": 1} if gpu else {"num_cpus": 1}),
        )
        wrong = []
        for row in made.iter_rows():
            if row["wrong"]:
                wrong.append(row["wrong"])
                continue
            yield Written(Path(row["target"]), row["rows"], row["failed"], row["warned"])
        if wrong:
            raise ValueError(wrong[0] + (f" In total, {len(wrong)} tables could not be predicted." if len(wrong) > 1 else ""))
    finally:
        if ours:
            ray.shutdown()
