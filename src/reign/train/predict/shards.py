"""Predict for a folder of tables (shards). The output is a folder with a table of the same name for each of them.

A shard is predicted by one process, in chunks, as a single table is. The shards are predicted one after another, or as tasks of Ray Data on a cluster, whose
machines need access to the folders. A shard that is complete has a mark next to it until all are, so that the same command continues after a kill; if a process
of the cluster is killed, Ray starts another one, which continues its shard where complete chunks end.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Unpack

from reign._validate import check
from reign.disk import check_writable, read_record, write_json
from reign.train.engine.callbacks import Callback
from reign.train.predict.output import ENDINGS, Written, counted, write_stream
from reign.train.predict.predictor import Predictor, StreamOptions, load

ENGINES = ("local", "ray")
Shard = tuple[Path, Path]  # a table, and the table to write


def predict_folder(
    predictor: Predictor,
    folder: str | Path,
    output: str | Path,
    *,
    engine: str = "local",
    num_actors: int | None = None,
    callback: Callback | None = None,
    **options: Unpack[StreamOptions],
) -> Written:
    """Predict for all tables in a folder, and write a table of the same name for each of them to another folder.

    Args:
        predictor: the models.
        folder: a folder of CSV and Parquet files; other files and folders in it are ignored.
        output: the folder to write to.
        engine: "local" for one table after another in this process; "ray" for a Ray cluster: the one in the environment variable RAY_ADDRESS, or a
            new one on this machine.
        num_actors: number of processes on a Ray cluster; one for each CPU (or GPU) if not given, at most one for each table.
        callback: receives progress events.
        options: further arguments of ``Predictor.stream``.
    """
    check("engine", engine, engine in ENGINES, " or ".join(map(repr, ENGINES)))
    callback, output = callback or Callback(), Path(output)
    if options.get("descriptors_path"):
        raise ValueError("--descriptors-path is for one table, but the input is a folder of tables; predict for one at a time.")
    shards = find_shards(Path(folder), output)
    _check_shards(predictor, [table for table, _ in shards], options)
    output.mkdir(parents=True, exist_ok=True)
    check_writable(output / "x")
    if engine == "ray":
        made = predict_on_ray(predictor, shards, num_actors, options)
    else:
        made = (finish(predictor, shard, options, callback) for shard in shards)
    done = []
    for each in made:
        done.append(each)
        callback.note(f"{each.path.name}: {each.rows:,} rows ({len(done)} of {len(shards)} tables)")
    for _, target in shards:
        _mark(target).unlink(missing_ok=True)
    return counted(done, output)


def find_shards(folder: Path, output: Path) -> list[Shard]:
    """The tables in a folder, by name, each with the table to write."""
    if folder.is_file():
        raise ValueError(f"{folder} is a file, expected a folder of tables; leave --engine out to predict for one table.")
    if not folder.is_dir():
        raise ValueError(f"the folder {folder} does not exist.")
    if output.resolve() == folder.resolve():
        raise ValueError(f"the output folder {output} is also the input; choose another one with -o.")
    if output.exists() and not output.is_dir():
        raise ValueError(f"{output} is a file, expected a folder, because the input is a folder of tables.")
    files = sorted(
        file for file in folder.iterdir() if file.is_file() and file.name.lower().endswith(ENDINGS) and file.name[0] not in "._"
    )
    if not files:
        raise ValueError(f"{folder} holds no tables, expected files that end in {', '.join(ENDINGS)}.")
    return [(file, output / file.name) for file in files]


def finish(predictor: Predictor, shard: Shard, options: StreamOptions, callback: Callback) -> Written:
    """Predict for one table, unless this was done before the command was stopped."""
    table, target = shard
    stream, about = predictor.stream(table, callback=callback, **options)
    depends, mark = about(), _mark(target)
    if mark.is_file() and target.is_file():
        saved = read_record(mark, about=dict, rows=int, failed=int, warned=int)
        if saved["about"] == depends:
            return Written(target, saved["rows"], saved["failed"], saved["warned"])
        raise ValueError(
            f"{target.parent} holds unfinished predictions of another command, such as {target.name}; complete them with that command, or choose "
            "another folder with -o."
        )
    written = write_stream(stream, target, lambda: depends, callback)
    write_json(mark, {"about": depends, "rows": written.rows, "failed": written.failed, "warned": written.warned})
    return written


def _mark(target: Path) -> Path:
    return target.with_name(f".{target.name}.reign-done")


def _check_shards(predictor: Predictor, tables: Sequence[Path], options: StreamOptions) -> None:
    """Check the columns of all tables before the work starts."""
    from reign.data.molecules import TableFile, need_columns

    columns = options.get("smiles_columns") or predictor.recipe.data.smiles_columns
    for path in tables:
        table = TableFile(path)
        table.need_text(columns)
        need_columns(table.columns, predictor.recipe.data.descriptors_columns, path)


class Actor:
    """A process of the cluster that predicts for one table after another.

    Args:
        models, device, best: as in ``load``.
        options: further arguments of ``Predictor.stream``.
    """

    def __init__(self, models: list[str], device: str, best: bool, options: StreamOptions) -> None:
        self.predictor, self.options = load(*models, device=device, best=best), options

    def __call__(self, row: Mapping[str, str]) -> dict[str, str | int]:
        """Predict for a table. A mistake in it is returned, and does not stop the other tables."""
        table, target = Path(row["table"]), Path(row["target"])
        try:
            done = finish(self.predictor, (table, target), self.options, Callback())
        except (ValueError, OSError) as error:
            return {"target": str(target), "rows": 0, "failed": 0, "warned": 0, "wrong": str(error)}
        return {"target": str(target), "rows": done.rows, "failed": done.failed, "warned": done.warned, "wrong": ""}


def predict_on_ray(
    predictor: Predictor, shards: Sequence[Shard], num_actors: int | None, options: StreamOptions
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
