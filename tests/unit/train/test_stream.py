"""Predictions for tables in chunks: the same rows as at once, each graph once, and the same file after a stop at any moment."""

import csv
import gzip
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from reign.cli import app
from reign.experiments import find_recipe
from reign.train import Callback, Predictor, load, train
from reign.train.predict import output
from reign.train.predict.output import FinishedChunks, resumable_folder, vectors_of_file, write_vectors
from reign.train.predict.shards import predict_folder
from reign.train.predict.tables import ForecastJob

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

CARBON = [start + "C" * n + end for start in ("", "c1ccccc1") for end in ("", "O", "N") for n in range(1, 8)]
# with repetitions in other writings, rows that cannot be read, and a salt
TEXTS = [*CARBON[:12], "xyz", "OC", "OCC", " CC ", "", *CARBON[5:20], "[Na+].[Cl-]", "NC", "C(C)(C)(C)(C)C", "OC", "[Cl-].[Na+]"]


def trained(folder: Path, **data: Any) -> Path:
    columns = {"smiles": CARBON, "size": [len(text) / 3 for text in CARBON], "pH": [n % 5 for n in range(len(CARBON))]}
    pd.DataFrame(columns).to_csv(folder / "mols.csv", index=False)
    recipe, _ = find_recipe(
        "molecules",
        {"data": {"path": str(folder / "mols.csv"), "target_columns": ["size"], **data}},
        {"model": {"hidden_channels": 8, "num_layers": 1}, "train": {"epochs": 1, "batch_size": 4}, "seeds": [0, 1]},
    )
    train(recipe, folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two small models."""
    return trained(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def predictor(run: Path) -> Predictor:
    return load(run)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "in.csv"
    pd.DataFrame({"name": [f"m{n}, {n}" for n in range(len(TEXTS))], "smiles": TEXTS}).to_csv(file, index=False)
    return file


def read(file: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows, delimiter=delimiter))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of graphs of each computation from here on."""
    sizes: list[int] = []
    whole = ForecastJob.cells

    def cells(self: ForecastJob, graphs: Any, texts: list[str], callback: Callback) -> Any:
        sizes.append(len(graphs))
        return whole(self, graphs, texts, callback)

    monkeypatch.setattr(ForecastJob, "cells", cells)
    return sizes


@pytest.mark.parametrize("chunk_rows", [9, 1000])
def test_chunks_give_the_table_that_is_predicted_at_once(
    predictor: Predictor, table: Path, tmp_path: Path, chunk_rows: int
) -> None:
    whole = predictor.predict_file(table, nearest=2)
    done = predictor.write_predictions(table, tmp_path / "out.csv", nearest=2, chunk_rows=chunk_rows)
    found = read(tmp_path / "out.csv")
    assert (done.rows, done.failed) == (len(TEXTS), 3)
    assert list(found[0]) == list(whole.columns)
    assert [row["smiles"] for row in found] == TEXTS
    assert [row["name"] for row in found] == whole["name"].tolist()
    assert [row["error"] for row in found] == whole["error"].tolist()
    for name in ("size_pred", "size_unc"):
        values = [float(row[name] or "nan") for row in found]
        assert values == pytest.approx(whole[name].tolist(), abs=1e-5, nan_ok=True)
    assert [row["nearest_rows"] for row in found] == whole["nearest_rows"].fillna("").tolist()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv", "out.csv"]  # nothing half written


def test_a_row_is_predicted_as_if_it_were_alone(predictor: Predictor, table: Path) -> None:
    found = predictor.predict_file(table)
    for row in (0, 14, 15, 33, len(TEXTS) - 1):
        alone = predictor.predict([TEXTS[row]])
        assert found["size_pred"][row] == pytest.approx(alone["size_pred"][0], abs=1e-5, nan_ok=True)
        assert found["error"][row] == alone["error"][0]


def test_a_graph_is_computed_once_within_the_cache(
    predictor: Predictor, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = counted(monkeypatch)
    predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=6)
    different = len({tuple(sorted(text.strip())) for text in TEXTS} - {tuple("xyz"), (), tuple(sorted("C(C)(C)(C)(C)C"))})
    assert sum(sizes) == different < len(TEXTS) - 3
    sizes.clear()
    monkeypatch.setattr("reign.train.predict.tables.CACHED", 3)
    predictor.write_predictions(table, tmp_path / "narrow.csv", chunk_rows=6)
    assert different < sum(sizes)
    ours, others = read(tmp_path / "out.csv"), read(tmp_path / "narrow.csv")
    for name in ("size_pred", "size_unc"):
        assert [float(row[name] or 0) for row in ours] == pytest.approx([float(row[name] or 0) for row in others], abs=1e-5)


def test_freed_memory_is_given_back_within_a_chunk(
    predictor: Predictor, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is kept it falls into pieces, so the memory of a process would grow with the chunk."""
    sizes = counted(monkeypatch)
    kept: list[list[int]] = []

    @contextmanager
    def keep() -> Iterator[None]:
        before = len(sizes)
        yield
        kept.append(sizes[before:])

    monkeypatch.setattr("reign.train.predict.tables.TOGETHER", 5)
    monkeypatch.setattr("reign.train.predict.tables.keep_freed_memory", keep)
    predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=1000)
    assert len(kept) == len(sizes) > 2
    assert all(len(each) == 1 and each[0] <= 5 for each in kept)


class Stop(BaseException):
    """A kill: nothing that the code does after it counts."""


def stopped_at(number: int) -> Callable[[], None]:
    """Stop when a file is to be written for this time, counted from 0. The result takes it back."""
    patch, left = pytest.MonkeyPatch(), [number]

    def stopping(real: Callable[..., None]) -> Callable[..., None]:
        def write(*args: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise Stop
            real(*args)

        return write

    for name in ("write_bytes", "write_json"):
        patch.setattr(output, name, stopping(getattr(output, name)))
    return patch.undo


@pytest.mark.parametrize(("name", "step", "size"), [("out.csv", 5, 65_536), ("out.csv.gz", 7, 4), ("out.parquet", 13, 65_536)])
def test_after_a_stop_at_any_moment_the_file_is_the_same(
    predictor: Predictor, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: int, size: int
) -> None:
    """Also if the cache is so small that results are forgotten and computed again."""
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    monkeypatch.setattr("reign.train.predict.tables.CACHED", size)
    whole, out = tmp_path / f"whole-{name}", tmp_path / name
    sizes = counted(monkeypatch)
    predictor.write_predictions(table, whole, chunk_rows=6)
    different, moment, stops = sum(sizes), 0, 0
    while True:
        undo = stopped_at(moment)
        try:
            predictor.write_predictions(table, out, chunk_rows=6)
            break
        except Stop:
            stops += 1
            assert not out.exists()
        finally:
            undo()
        sizes.clear()
        done = 6 * ((moment - 1) // 3) if moment else 0  # about.json, then three files for each chunk
        predictor.write_predictions(table, out, chunk_rows=6)
        assert out.read_bytes() == whole.read_bytes()
        assert not resumable_folder(out).exists()
        assert sum(sizes) < different or done == 0
        out.unlink()
        moment += step
    assert stops >= 2


def test_unfinished_predictions_of_another_command_are_refused(
    predictor: Predictor, run: Path, table: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    undo = stopped_at(8)
    with pytest.raises(Stop):
        predictor.write_predictions(table, out, chunk_rows=9)
    undo()
    folder = resumable_folder(out)
    other = tmp_path / "other"
    shutil.copytree(run, other)
    (other / "seed-0" / "scale.json").write_text('{"mean": [0.5], "deviation": [1.0]}')
    for what, made in {
        "options": lambda: predictor.write_predictions(table, out, chunk_rows=9, uncertainty=False),
        "chunk_rows": lambda: predictor.write_predictions(table, out, chunk_rows=8),
        "models": lambda: load(other).write_predictions(table, out, chunk_rows=9),
    }.items():
        with pytest.raises(ValueError, match=f"holds unfinished predictions of another command \\({what} is"):
            made()
    before = table.read_text()
    table.write_text(before + "x,CCCC\n")
    with pytest.raises(ValueError, match="another command \\(input is"):
        predictor.write_predictions(table, out, chunk_rows=9)
    assert not out.exists()
    table.write_text(before)
    (folder / "00000.seen").write_text("[[1, 2]]")
    with pytest.raises(ValueError, match=r"00000\.seen is damaged; delete"):
        predictor.write_predictions(table, out, chunk_rows=9)
    (folder / "00000.part").unlink()
    with pytest.raises(ValueError, match=r"00000\.part is missing"):
        predictor.write_predictions(table, out, chunk_rows=9)


def test_a_command_that_ended_before_its_first_chunk_does_not_stand_in_the_way(
    predictor: Predictor, table: Path, tmp_path: Path
) -> None:
    undo = stopped_at(2)  # after about.json and the rows of the first chunk, before its results
    with pytest.raises(Stop):
        predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=9)
    undo()
    assert (resumable_folder(tmp_path / "out.csv") / "00000.part").is_file()
    predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=8)
    predictor.write_predictions(table, tmp_path / "whole.csv", chunk_rows=8)
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_results_that_no_later_row_needs_are_not_kept(tmp_path: Path) -> None:
    from reign.data.molecules import Chunk
    from reign.train.predict.tables import Computed

    parts = FinishedChunks(tmp_path, {})
    parts.cache.size = 4
    for number in range(5):
        keys = [bytes([number, each]) for each in range(2)]
        for key in keys:
            parts.cache.add(key, (1.0,), "")
        parts.add(b"x", Computed(Chunk(2 * number, 2, {}), {}, keys, 0))
        parts.cache.trim()
    assert sorted(file.name for file in tmp_path.glob("*.seen")) == ["00003.seen", "00004.seen"]
    again = FinishedChunks(tmp_path, {})
    assert list(again.cache.found) == list(parts.cache.found)
    assert (again.chunks, again.rows) == (5, 10)


def test_formats(predictor: Predictor, table: Path, tmp_path: Path) -> None:
    pq, pa = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=9)
    plain = (tmp_path / "out.csv").read_text()
    predictor.write_predictions(table, tmp_path / "out.csv.gz", chunk_rows=9)
    assert gzip.decompress((tmp_path / "out.csv.gz").read_bytes()).decode() == plain
    predictor.write_predictions(table, tmp_path / "out.tsv", chunk_rows=9)
    assert read(tmp_path / "out.csv") == read(tmp_path / "out.tsv", "\t")
    given = pa.table({"smiles": [text or None for text in TEXTS], "n": pa.array(range(len(TEXTS)), pa.int16())})
    pq.write_table(given, tmp_path / "in.parquet", row_group_size=4)
    for chunk_rows in (9, 1000):
        predictor.write_predictions(tmp_path / "in.parquet", tmp_path / "out.parquet", chunk_rows=chunk_rows)
        found = pq.read_table(tmp_path / "out.parquet")
        assert found.select(["smiles", "n"]) == given  # with their types
        rows = read(tmp_path / "out.csv")
        assert found["error"].to_pylist() == [row["error"] for row in rows]
        assert found["size_pred"].type == pa.float64()
        assert found["size_pred"].to_pylist() == pytest.approx(
            [float(row["size_pred"]) if row["size_pred"] else None for row in rows], abs=1e-5
        )
    predictor.write_predictions(tmp_path / "in.parquet", tmp_path / "mixed.csv")
    assert [row["n"] for row in read(tmp_path / "mixed.csv")] == [str(n) for n in range(len(TEXTS))]
    assert predictor.predict_file(tmp_path / "in.parquet")["n"].tolist() == list(range(len(TEXTS)))
    for values in ([1, 2], [b"C", b"CC"], [["C"], ["CC"]]):
        pq.write_table(pa.table({"smiles": values}), tmp_path / "numbers.parquet")
        with pytest.raises(ValueError, match=r"column 'smiles' of .*numbers\.parquet holds values of type .*, expected text"):
            predictor.write_predictions(tmp_path / "numbers.parquet", tmp_path / "other.csv")
    pq.write_table(pa.table({"smiles": pa.array(["C", "CC"]).dictionary_encode()}), tmp_path / "words.parquet")
    assert predictor.write_predictions(tmp_path / "words.parquet", tmp_path / "words.csv").failed == 0
    with pytest.raises(ValueError, match=r"in\.csv is the input and the output; choose another file"):
        predictor.write_predictions(table, tmp_path / "in.csv")
    with pytest.raises(ValueError, match=r"would be a zip archive, .* use \.csv\.gz"):
        predictor.write_predictions(table, tmp_path / "out.csv.zip")
    with pytest.raises(ValueError, match=r"out\.xlsx ends in \.xlsx, expected one of \.csv, \.tsv"):
        predictor.write_predictions(table, tmp_path / "out.xlsx")
    with pytest.raises(ValueError, match="the columns of SMILES are smiles, n, but the run was trained on smiles; give as many"):
        predictor.write_predictions(table, tmp_path / "out.csv", smiles_columns=["smiles", "n"])


def test_an_empty_table(predictor: Predictor, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("smiles\n")
    assert predictor.write_predictions(tmp_path / "in.csv", tmp_path / "out.csv").rows == 0
    assert (tmp_path / "out.csv").read_text() == "smiles,size_pred,size_unc,warning,error\n"
    assert list(predictor.predict_file(tmp_path / "in.csv").columns) == ["smiles", "size_pred", "size_unc", "warning", "error"]


def test_progress_counts_rows(predictor: Predictor, table: Path, tmp_path: Path) -> None:
    class Rows(Callback):
        def __init__(self) -> None:
            self.told: list[tuple[int, int, float | None]] = []

        def rows(self, done: int, total: int, seconds: float | None) -> None:
            self.told.append((done, total, seconds))

    heard = Rows()
    predictor.write_predictions(table, tmp_path / "out.csv", chunk_rows=9, callback=heard)
    done = [row for row, _, _ in heard.told]
    assert done == sorted(done)
    assert {9, 18, 27, len(TEXTS)} <= set(done)
    assert heard.told[-1] == (len(TEXTS), len(TEXTS), 0.0)
    assert all(seconds is None or seconds >= 0 for _, _, seconds in heard.told)


def test_descriptors_and_vectors_in_chunks(tmp_path: Path) -> None:
    """Descriptors of the table, of another table and of RDKit; a cell that is not a number costs only its row."""
    pd.DataFrame({"mass": [float(len(text)) for text in CARBON]}).to_csv(tmp_path / "extra.csv", index=False)
    predictor = load(
        trained(
            tmp_path,
            descriptors_columns=["pH"],
            descriptors_path=str(tmp_path / "extra.csv"),
            molecule_featurizers=["morgan_binary"],
        )
    )
    acid: list[Any] = [n % 3 for n in range(30)]
    acid[20] = "sour"
    pd.DataFrame({"smiles": CARBON[:10] * 3, "pH": acid}).to_csv(tmp_path / "in.csv", index=False)
    pd.DataFrame({"mass": [1.0] * 30}).to_csv(tmp_path / "other.csv", index=False)
    options: dict[str, Any] = {"descriptors_path": tmp_path / "other.csv"}
    whole = predictor.predict_file(tmp_path / "in.csv", **options)
    predictor.write_predictions(tmp_path / "in.csv", tmp_path / "out.csv", chunk_rows=7, **options)
    found = read(tmp_path / "out.csv")
    assert [row["error"] for row in found] == whole["error"].tolist()
    assert found[20]["error"] == "pH of in.csv is 'sour', expected a number, because it is a descriptor"
    values = [float(row["size_pred"] or "nan") for row in found]
    assert values == pytest.approx(whole["size_pred"].tolist(), abs=1e-5, nan_ok=True)
    assert values[0] != pytest.approx(values[10], abs=1e-6)  # the same molecule with another pH
    vectors = vectors_of_file(predictor, tmp_path / "in.csv", descriptors_path=tmp_path / "other.csv")
    write_vectors(predictor, tmp_path / "in.csv", tmp_path / "fps.csv", descriptors_path=tmp_path / "other.csv", chunk_rows=7)
    written = read(tmp_path / "fps.csv")
    assert list(written[0]) == list(vectors.columns)
    assert [float(row["model_1_fp_3"] or "nan") for row in written] == pytest.approx(
        vectors["model_1_fp_3"].tolist(), abs=1e-5, nan_ok=True
    )
    pd.DataFrame({"mass": [1.0] * 29}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(ValueError, match=r"other\.csv has 29 rows, expected 30, one for each row of in\.csv"):
        predictor.write_predictions(tmp_path / "in.csv", tmp_path / "out.csv", **options)


def test_columns_are_checked_before_any_work(predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*args: Any) -> None:
        raise AssertionError("work was done before the refusal")

    monkeypatch.setattr("reign.nn.Model.forward", forbidden)
    for column in ("size_unc", "nearest_rows", "error"):
        (tmp_path / "in.csv").write_text(f"smiles,{column}\nC,1\n")
        with pytest.raises(ValueError, match=f"already has a column '{column}'"):
            predictor.write_predictions(tmp_path / "in.csv", tmp_path / "out.csv", nearest=1)
    (tmp_path / "in.csv").write_text("smiles\n" + "C\n" * 30 + '"CC\n')
    with pytest.raises(ValueError, match="the quote that opens in line 32 is not closed"):
        predictor.write_predictions(tmp_path / "in.csv", tmp_path / "out.csv", chunk_rows=4)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.csv"]


def test_commands(run: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def reign(*args: Any) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(map(str, args)), env={"COLUMNS": "300"})
        return done.exit_code, done.output

    pytest.importorskip("pyarrow")
    pd.read_csv(table, keep_default_na=False).to_parquet("in.parquet", index=False)
    for name in ("in.csv", "in.parquet"):
        assert reign("predict", "-i", name, "--model-paths", run, "-q", "--num-workers", 0)[0] == 0
    found = pd.read_parquet("in_preds.parquet")["size_pred"].tolist()
    assert found == pytest.approx(pd.read_csv("in_preds.csv")["size_pred"].tolist(), rel=1e-12, nan_ok=True)
    Path("many").mkdir()
    shutil.copy(table, "many/a.csv")
    status, said = reign("predict", "-i", "many", "--model-paths", run)
    assert (status, Path("many_preds/a.csv").read_bytes()) == (0, Path("in_preds.csv").read_bytes())
    assert f"a.csv: {len(TEXTS)} rows (1 of 1 tables)" in said
    assert (
        "num_workers is -1, expected at least 0" in reign("predict", "-i", "in.csv", "--model-paths", run, "--num-workers", -1)[1]
    )
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for args in (["-i", "in.parquet"], ["-i", "in.csv", "-o", "out.parquet"]):
        status, said = reign("predict", *args, "--model-paths", run)
        assert status == 2
        assert "Parquet files need pyarrow: pip install 'reign[parquet]'." in said
    monkeypatch.setitem(sys.modules, "ray", None)
    status, said = reign("predict", "-i", "many", "-o", "out", "--model-paths", run, "--engine", "ray")
    assert status == 2
    assert "--engine ray needs Ray Data: pip install 'reign[scale]'" in said


# -- folders of tables -------------------------------------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(3):
        texts = TEXTS[number * 12 : (number + 1) * 12]
        ending = (".csv", ".CSV", ".csv.gz")[number]
        pd.DataFrame({"smiles": texts}).to_csv(folder / f"part-{number}{ending}", index=False)
    (folder / "notes.txt").write_text("not a table")
    (folder / ".part-9.csv").write_text("hidden")
    return folder


def test_a_folder_of_tables(predictor: Predictor, shards: Path, tmp_path: Path) -> None:
    done = predict_folder(predictor, shards, tmp_path / "out", chunk_rows=5)
    assert (done.rows, done.path) == (36, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["part-0.csv", "part-1.CSV", "part-2.csv.gz"]
    predictor.write_predictions(shards / "part-1.CSV", tmp_path / "alone.csv", chunk_rows=5)
    assert (tmp_path / "out" / "part-1.CSV").read_bytes() == (tmp_path / "alone.csv").read_bytes()


def test_a_folder_goes_on_where_it_was_stopped(
    predictor: Predictor, shards: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    predict_folder(predictor, shards, tmp_path / "whole", chunk_rows=5)

    class Stopping(Callback):
        def note(self, text: str) -> None:
            if text.startswith("part-1.CSV"):
                raise Stop

    with pytest.raises(Stop):
        predict_folder(predictor, shards, out, chunk_rows=5, callback=Stopping())
    with pytest.raises(ValueError, match=r"holds unfinished predictions of another command, such as part-0\.csv"):
        predict_folder(predictor, shards, out, chunk_rows=5, uncertainty=False)
    sizes = counted(monkeypatch)
    assert predict_folder(predictor, shards, out, chunk_rows=5).rows == 36
    assert sum(sizes) <= 12  # those of the last table
    assert sorted(file.name for file in out.iterdir()) == sorted(file.name for file in (tmp_path / "whole").iterdir())
    for file in out.iterdir():
        assert file.read_bytes() == (tmp_path / "whole" / file.name).read_bytes()


def test_folders_that_are_refused(predictor: Predictor, shards: Path, tmp_path: Path) -> None:
    for message, change in {
        "engine is 'spark', expected 'local' or 'ray'": {"engine": "spark"},
        "is also the input; choose another one": {"output": shards},
        "nowhere does not exist": {"folder": tmp_path / "nowhere"},
        "part-0.csv is a file, expected a folder of tables; leave --engine out": {"folder": shards / "part-0.csv"},
        "holds no tables, expected files that end in": {"folder": tmp_path / "empty"},
        "is a file, expected a folder": {"output": shards / "notes.txt"},
        "--descriptors-path is for one table": {"descriptors_path": "x.csv"},
        "has no column 'smile'; did you mean 'smiles'": {"smiles_columns": ["smile"]},
    }.items():
        (tmp_path / "empty").mkdir(exist_ok=True)
        options: dict[str, Any] = {"folder": shards, "output": tmp_path / "out", **change}
        with pytest.raises(ValueError, match=message):
            predict_folder(predictor, **options)
    assert not (tmp_path / "out").exists()
