"""Predict for a folder of tables (shards). The output is a folder with a table of the same name for each of them.

A shard is predicted by one process, in chunks, as a single table is. The shards are predicted one after another, or on a Ray cluster, whose machines need
access to the folders. A shard that is complete has a mark beside it until all are, so that the same command continues after a kill.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reign._validate import check
from reign.disk import check_writable, read_record, write_json
from reign.train.engine.callbacks import Callback
from reign.train.partial import Written, counted, write_stream
from reign.train.predictor import Predictor
from reign.train.table_output import ENDINGS

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
    **options: Any,
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
        from reign.train.ray_engine import predict_on_ray

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


def finish(predictor: Predictor, shard: Shard, options: dict[str, Any], callback: Callback) -> Written:
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


def _check_shards(predictor: Predictor, tables: Sequence[Path], options: dict[str, Any]) -> None:
    """Check the columns of all tables before the work starts."""
    from reign.data.molecules import TableFile, need_columns

    columns = options.get("smiles_columns") or predictor.recipe.data.smiles_columns
    for path in tables:
        table = TableFile(path)
        table.need_text(columns)
        need_columns(table.columns, predictor.recipe.data.descriptors_columns, path)
