"""What once went wrong with files of strangers and mistakes of users, one test for each of them."""

import contextlib
import errno
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from canary import Bomb, bombs
from safetensors.torch import load_file, save_file
from torch_geometric.data import Batch

from commands import MOLECULES, SMALL, fails, works
from reign._validate import check_shapes
from reign.bags import STATE_BYTES, check_fits, free_memory
from reign.data import CSL, GraphDataset, Problem, load_problem, read_arrays
from reign.disk import check_writable, read_json, read_tensors, remove_unfinished, write_bytes, write_text
from reign.nn import DS, SUN, Model
from reign.policies import NodeMarking, Sampled
from reign.testing import random_graphs
from reign.train.engine.batches import bytes_of_a_pair
from reign.train.runs.build import make_problem, problem_of_run
from reign.train.runs.run import Run, only_one
from reign.train.settings.config import Recipe
from reign.train.settings.yaml import parse_yaml

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


def change(file: Path, **values: Any) -> None:
    """Change some values of a JSON file."""
    file.write_text(json.dumps({**read_json(file), **values}))


class Rings(GraphDataset):
    """Ten rings."""

    name = "rings"
    about = "rings"

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        return {"kind": "ring", "number": 10, "share": 1.0}

    def make(self) -> dict[str, Any]:
        graphs = random_graphs(10, num_features=1)
        for data in graphs:
            data.y = torch.ones(1, 1)
        return {"train": graphs[:6], "val": graphs[6:8], "test": graphs[8:]}


# -- 1: no stranger's file runs code -----------------------------------------------------------------------------------


def test_1_the_bombs_are_live(canary: Path) -> None:
    """Else the tests below would prove nothing."""
    for name, content in bombs(canary).items():
        if name == "npz":
            with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
                _ = arrays["y"]
        elif name == "torch":
            torch.load(io.BytesIO(content), weights_only=False)
        elif name == "pickle":
            pickle.loads(content)
        else:
            yaml.unsafe_load(content)
        assert canary.exists(), name
        canary.unlink()


def test_1_a_cache_runs_no_code(tmp_path: Path, canary: Path) -> None:
    """Old caches, and every name that PyG looks for, as a bomb; and bombs in place of our own files."""
    first = Rings(tmp_path / "data")
    place = Path(first.processed_dir)
    for name in ("train.pt", "val.pt", "test.pt", "pre_transform.pt", "pre_filter.pt"):
        torch.save(Bomb(canary), place / name)
    for content in bombs(canary).values():
        for split in first.splits:
            (place / f"{split}.safetensors").write_bytes(content)
        again = Rings(tmp_path / "data")
        assert torch.equal(first.pack().edge_index, again.pack().edge_index)
    assert not canary.exists()


def test_1_a_cache_that_is_wrong_is_made_anew(tmp_path: Path) -> None:
    first = Rings(tmp_path / "data")
    file = Path(first.processed_dir) / "train.safetensors"
    good, about = read_tensors(file)
    for name, value in {
        "data.edge_index": good["data.edge_index"] + 10**6,
        "slices.x": good["slices.x"].flip(0),
        "slices.edge_index": good["slices.edge_index"][:-1],
        "data.x": good["data.x"][:-1],
    }.items():
        save_file({**good, name: value}, file, about)
        assert torch.equal(Rings(tmp_path / "data").pack().edge_index, first.pack().edge_index), name
        assert torch.equal(load_file(file)[name], good[name])


@pytest.mark.parametrize("how", ["evaluate", "resume", "train"])
def test_1_a_recipe_may_not_name_the_folder_of_the_data(run: Path, canary: Path, tmp_path: Path, how: str) -> None:
    place = tmp_path / "stranger" / "csl" / "v1" / "processed"
    place.mkdir(parents=True)
    for split in CSL.splits:
        torch.save(Bomb(canary), place / f"{split}.pt")
    text = f"data: {{name: csl, options: {{root: {tmp_path / 'stranger'}}}}}\n"
    (run / "recipe.yaml").write_text(text)
    (tmp_path / "r.yaml").write_text(text)
    said = fails(
        *{"evaluate": ["evaluate", run], "resume": ["train", "--resume", run], "train": ["train", tmp_path / "r.yaml"]}[how]
    )
    assert "a recipe must not set the folder of a data set; set the environment variable REIGN_CACHE" in said
    assert not canary.exists()


@pytest.mark.parametrize("outside", ["../elsewhere", "/tmp", "seed-0/../../elsewhere", "link"])
def test_1_a_summary_may_not_name_a_folder_outside(run: Path, tmp_path: Path, outside: str) -> None:
    shutil.copytree(run / "seed-0", tmp_path / "elsewhere")
    (run / "link").symlink_to(tmp_path / "elsewhere")
    summary = read_json(run / "summary.json")
    change(run / "summary.json", members=[{**summary["members"][0], "folder": outside}])
    assert "outside the run" in fails("evaluate", run)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (LAUGHS, "stands for more than 100,000 values"),
        ("a: " + "[" * 5000 + "]" * 5000, "nested more than 20 levels deep"),
        ("a: &x [*x]", "alias \\*x without a complete anchor &x before it"),
        ("x" * 2**21, "holds 2,097,152 characters"),
        ("a: 2001-99-99", "month must be in"),
        ("? [1]\n: 2\n? {a: b}\n: 3", "unhashable|is not YAML"),
        ("a: !!python/name:os.system", "is not YAML"),
    ],
)
def test_1_yaml_beyond_reason(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_yaml(text)
    (tmp_path / "r.yaml").write_text(text)
    assert "r.yaml" in fails("train", tmp_path / "r.yaml")


def test_1_json_beyond_reason(run: Path) -> None:
    for name in ("summary.json", "problem.json", "seed-0/scale.json", "seed-0/last/config.json"):
        before = (run / name).read_text()
        (run / name).write_text("[" * 100_000 + "]" * 100_000)
        assert f"{Path(name).name} is damaged (it is nested too deeply)" in fails("evaluate", run)
        (run / name).write_text(before)


def test_1_arrays_are_read_without_pickle(tmp_path: Path, canary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "csl.npz").write_bytes(bombs(canary)["npz"])
    monkeypatch.setenv("REIGN_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="csl.npz cannot be read as an .npz file \\(Object arrays cannot be loaded"):
        load_problem("csl")
    assert not canary.exists()
    np.savez(tmp_path / "csl.npz", num_nodes=np.ones(2))
    with pytest.raises(ValueError, match="csl.npz has no array 'y'; it has num_nodes"):
        read_arrays(tmp_path / "csl.npz")["y"]


# -- 2: one molecule does not end the job ------------------------------------------------------------------------------

ODD = ["[#119]", "Cc1cccc(NC(=O)Cc2csc(N3CCCn3=O)n2)c1"]


def test_2_a_molecule_that_rdkit_fails_on_is_an_error_of_its_row(trained: Path, tmp_path: Path) -> None:
    pd.DataFrame({"smiles": ["CC", *ODD, "CCO"]}).to_csv("in.csv", index=False)
    assert "2 of 4 rows predicted" in works("predict", "-i", "in.csv", "--model-paths", trained / "run", "-o", "out.csv").output
    out = pd.read_csv("out.csv", keep_default_na=False)
    assert out["smiles"].tolist() == ["CC", *ODD, "CCO"]
    assert [bool(error) for error in out["error"]] == [False, True, True, False]
    assert "Atomic number not found" in out["error"][1]


@pytest.mark.parametrize("split", ["random", "scaffold_balanced"])
def test_2_such_a_molecule_is_left_out_of_training(tmp_path: Path, split: str) -> None:
    texts = [*MOLECULES[:10], *ODD, *MOLECULES[10:]]
    pd.DataFrame({"smiles": texts, "y": range(len(texts))}).to_csv("in.csv", index=False)
    works("train", "-i", "in.csv", "--target-columns", "y", "--split-type", split, "-o", "run", *SMALL)
    assert pd.read_csv("run/rows_left_out.csv")["row"].tolist() == [11, 12]


def test_2_a_molecule_too_large_for_the_memory_is_an_error_of_its_row(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reign.train.engine.batches.free_memory", lambda device: 4e9)
    pd.DataFrame({"smiles": ["CC", "C" * 4_000, "CCO"]}).to_csv("in.csv", index=False)
    works("predict", "-i", "in.csv", "--model-paths", trained / "run", "-o", "out.csv")
    out = pd.read_csv("out.csv", keep_default_na=False)
    assert "there is too little memory for this graph, which has 16,000,000 pairs" in out["error"][1]
    assert [bool(error) for error in out["error"]] == [False, True, False]
    assert out["size_pred"][1] == ""


LARGE = "C" * 2_100


def _little_memory(monkeypatch: pytest.MonkeyPatch, size: float = 1e9) -> None:
    monkeypatch.setattr("reign.train.engine.batches.free_memory", lambda device: size)


@pytest.mark.parametrize("place", [0, 10])
def test_2_such_a_molecule_is_left_out_of_training_with_its_row(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it stands, and whatever split it falls into; the run continues with the same rows where there is more memory."""
    _little_memory(monkeypatch)
    texts = [*MOLECULES[:place], LARGE, *MOLECULES[place:]]
    pd.DataFrame({"smiles": texts, "y": range(len(texts))}).to_csv("in.csv", index=False)
    loud = [option for option in SMALL if option != "-q"]
    said = works("train", "-i", "in.csv", "--target-columns", "y", "-o", "run", *loud).stderr
    assert f"row {place + 1} left out: there is too little memory for this graph, which has 4,410,000 pairs" in " ".join(
        said.split()
    )
    left_out = pd.read_csv("run/rows_left_out.csv")
    assert left_out["row"].tolist() == [place + 1]
    assert left_out["reason"][0].startswith("there is too little memory for this graph")
    splits = read_json(Path("run/seed-0/splits.json"))
    assert sorted(int(row) for rows in splits.values() for row in rows) == [r for r in range(1, len(texts) + 1) if r != place + 1]
    whole = make_problem(Recipe.load(Path("run/recipe.yaml")).data)[0]
    assert str(place + 1) in (whole.names or [])
    assert str(place + 1) not in (problem_of_run(Run("run"), whole).names or [])  # what other processes of the run learn from
    before = works("evaluate", "run").stdout
    _little_memory(monkeypatch, 1e15)
    Path("run/summary.json").unlink()
    Path("run/seed-0/result.json").unlink()
    works("train", "--resume", "run")
    assert works("evaluate", "run").stdout == before


def test_2_only_such_molecules_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _little_memory(monkeypatch)
    pd.DataFrame({"smiles": ["xyz", LARGE, LARGE], "y": [0, 1, 2]}).to_csv("in.csv", index=False)
    said = fails("train", "-i", "in.csv", "--target-columns", "y", "-o", "run", *SMALL)
    assert "in.csv has no row to learn from; row 2: there is too little memory for this graph" in said
    assert not Path("run").exists()


def test_2_evaluate_leaves_such_a_molecule_out(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _little_memory(monkeypatch)
    rows = ["smiles,size", "C,1", "CC,2", "CCO,3"]
    Path("small.csv").write_text("\n".join(rows))
    Path("large.csv").write_text("\n".join([*rows[:2], f"{LARGE},1", "xyz,1", *rows[2:]]))
    small, large = (works("evaluate", trained / "run", "-i", name, "-q").stdout for name in ("small.csv", "large.csv"))
    assert large.replace("large.csv", "small.csv").startswith(small)
    assert (
        "3 of 5 rows were evaluated. Row 2 was left out: there is too little memory for this graph, which has 4,410,000 pairs"
        in large
    )
    assert "In total, 2 rows were left out." in large
    loud = works("evaluate", trained / "run", "-i", "large.csv")
    assert [loud.stderr.count(f"row {row} left out: ") for row in (2, 3)] == [1, 1]
    assert loud.stdout.splitlines()[-1] == "3 of 5 rows were evaluated."
    Path("many.csv").write_text("\n".join([*rows, *["xyz,1"] * 12]))
    many = works("evaluate", trained / "run", "-i", "many.csv")
    assert "row 13 left out: 'xyz' is not a SMILES" in many.stderr
    assert "... and 2 more rows left out" in many.stderr
    assert "rows_left_out.csv" not in many.stderr  # which is of the training
    assert many.stdout.splitlines()[-1] == "3 of 15 rows were evaluated."
    Path("none.csv").write_text(f"smiles,size\nxyz,1\n{LARGE},1\n")
    assert "none.csv has no row that can be evaluated; row 1: 'xyz' is not a SMILES." in fails(
        "evaluate", trained / "run", "-i", "none.csv"
    )


def test_2_rows_that_a_run_left_out_are_checked(run: Path) -> None:
    (run / "summary.json").unlink()
    for wrong in ({"99": "x"}, {"1": 2}, ["1"], "1"):
        change(run / "problem.json", too_large=wrong)
        assert "problem.json is damaged (too_large is" in fails("train", "--resume", run)


def test_2_the_memory_is_judged_by_the_width_of_the_model() -> None:
    narrow, wide = (DS(3, width, 1, 1, policy="nm") for width in (4, 4096))
    assert bytes_of_a_pair(wide) > 100 * bytes_of_a_pair(narrow)
    assert bytes_of_a_pair(wide.double()) > 1.9 * bytes_of_a_pair(DS(3, 4096, 1, 1, policy="nm"))
    pairs = int(free_memory(torch.device("cpu")) // (20 + STATE_BYTES) * 1.5)  # too many for 64 channels, not for one
    with pytest.raises(ValueError, match="256 bytes per pair"):
        check_fits(pairs, torch.device("cpu"), "this", "that")
    check_fits(pairs, torch.device("cpu"), "this", "that", state_bytes=4)


# -- 3: a quote does not swallow rows ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opens", "closes"),
    [('"CC,1', None), ('"CC,1', 'CO",2'), ('"CC,1', '"CO,2'), ('CC,"1', "CO,2"), ('CC,"1', 'CO,"2'), ('CC,"1', 'CO,2"')],
)
def test_3_an_unbalanced_quote_is_refused(trained: Path, opens: str, closes: str | None) -> None:
    lines = ["smiles,y", "C,0", opens, *["CCC,3"] * 19, *([closes] if closes else []), "CCCC,4"]
    Path("in.csv").write_text("\n".join(lines) + "\n")
    for args in (["predict", "--model-paths", trained / "run"], ["train", "--target-columns", "y"]):
        said = fails(*args, "-i", "in.csv", "-o", "out")
        assert "the quote that opens in line 3" in said
        assert "if the field is meant to span lines, put it on one line." in said
    assert not Path("out").exists()


def test_3_a_quoted_field_may_span_lines(trained: Path) -> None:
    Path("in.csv").write_text('smiles,note,y\nC,"one\ntwo, three\nfour",1\n"CC",fine,2\nCCC,"a ""b"" c",3\n')
    works("predict", "-i", "in.csv", "--model-paths", trained / "run", "-o", "out.csv")
    assert pd.read_csv("out.csv")["note"].tolist() == ["one\ntwo, three\nfour", "fine", 'a "b" c']


def test_3_a_lone_carriage_return_does_not_split_a_row(trained: Path) -> None:
    Path("in.csv").write_bytes(b'smiles,note\nC,"a\rb"\nCC,"c\n\rd"\n')
    works("predict", "-i", "in.csv", "--model-paths", trained / "run", "-o", "out.csv")
    assert pd.read_csv("out.csv")["note"].tolist() == ["a\rb", "c\n\rd"]


def test_3_a_long_field_costs_no_other_row(trained: Path) -> None:
    Path("in.csv").write_text(f"smiles,note\nC,{'x' * 200_000}\nCC,y\n")
    assert "2 of 2 rows" in works("predict", "-i", "in.csv", "--model-paths", trained / "run", "-o", "out.csv").output


# -- 4: one process in a folder ----------------------------------------------------------------------------------------


def test_4_a_second_process_is_refused(run: Path, tmp_path: Path) -> None:
    with only_one(run):
        assert f"process {os.getpid()} on " in fails("train", "--resume", run)
    works("train", "--resume", run)
    assert not (run / ".lock").exists()


def test_4_the_lock_does_not_survive_a_kill(tmp_path: Path) -> None:
    code = "import sys, time\nfrom pathlib import Path\nfrom reign.train.runs.run import only_one\n"
    code += "with only_one(Path('run')):\n    print('held', flush=True)\n    time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(ValueError, match=f"process {holder.pid} on .* is writing to run"), only_one(Path("run")):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert Path("run/.lock").exists()
    with only_one(Path("run")):
        pass
    assert list(Path("run").iterdir()) == []


# -- 5: threads --------------------------------------------------------------------------------------------------------


def test_5_evaluation_has_no_state() -> None:
    data = Batch.from_data_list(random_graphs(4, min_nodes=5))
    model = DS(3, 6, 2, 2, policy=Sampled(NodeMarking(), share=0.4, eval_draws=3)).eval()
    with torch.no_grad():
        expected = model(data.x, data.edge_index, batch=data.batch)
    wrong: list[int] = []

    def call() -> None:
        for i in range(10):
            with torch.no_grad():
                if not torch.equal(model(data.x, data.edge_index, batch=data.batch), expected):
                    wrong.append(i)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    model.policy(data.x, data.edge_index, batch=data.batch)  # a single draw changes nothing either
    with torch.no_grad():
        assert torch.equal(model(data.x, data.edge_index, batch=data.batch), expected)


# -- 6: refusals come first, and outputs are whole ---------------------------------------------------------------------


@pytest.fixture
def _no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a model is called."""

    def forbidden(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("work was done before the refusal")

    monkeypatch.setattr(Model, "forward", forbidden)


@pytest.mark.usefixtures("_no_work")
@pytest.mark.parametrize("column", ["size_pred", "error"])
def test_6_a_clash_of_columns_is_refused_first(trained: Path, column: str) -> None:
    pd.DataFrame({"smiles": ["CC"], column: ["x"]}).to_csv("in.csv", index=False)
    assert f"already has a column '{column}'" in fails("predict", "-i", "in.csv", "--model-paths", trained / "run")


@pytest.mark.usefixtures("_no_work")
@pytest.mark.parametrize("output", ["folder", "/proc/out.csv", "nowhere/out.csv", "file/out.csv", "x" * 300])
def test_6_an_output_that_cannot_be_written_is_refused_first(trained: Path, output: str) -> None:
    Path("folder").mkdir()
    Path("file").touch()
    said = fails("predict", "-i", trained / "mols.csv", "--model-paths", trained / "run", "-o", output)
    assert "is a folder" in said or "cannot be written" in said
    assert "is a folder" in fails("card", "sun:nm", "-o", "folder")


@pytest.mark.usefixtures("_no_work")
@pytest.mark.parametrize("output", ["file", "/proc/run", "file/run"])
def test_6_a_run_that_cannot_be_written_is_refused_first(trained: Path, output: str) -> None:
    Path("file").touch()
    said = fails("train", "-i", trained / "mols.csv", "--target-columns", "size", "-o", output, *SMALL)
    assert "is a file, expected a folder" in said or "cannot be used for the run" in said


def _full_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The disk is full when a file of a given name is written."""
    real = os.fsync

    def full(file: int) -> None:
        if f"/.{name}." in os.readlink(f"/proc/self/fd/{file}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", full)


def test_6_a_full_disk_leaves_the_old_output(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("out.csv").write_text("old")
    _full_at(monkeypatch, "out.csv")
    said = fails("predict", "-i", trained / "mols.csv", "--model-paths", trained / "run", "-o", "out.csv")
    assert "out.csv cannot be written (No space left on device)" in said
    assert Path("out.csv").read_text() == "old"
    assert sorted(file.name for file in Path().iterdir()) == ["out.csv"]


FILES = ["recipe.yaml", "environment.json", "problem.json", "splits.json", "scale.json", "checkpoint.pt", "metrics.csv"]
FILES += ["model.safetensors", "config.json", "predictions.csv", "result.json", "summary.json"]


def test_6_a_full_disk_at_any_file_of_a_run(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever file it is, there is a message, nothing is half written, and the run can be continued to the same end."""
    for name in FILES:
        new = not Path("run/recipe.yaml").exists()
        args = ["-i", trained / "mols.csv", "--target-columns", "size", "-o", "run", *SMALL] if new else ["--resume", "run", "-q"]
        with monkeypatch.context() as patch:
            _full_at(patch, name)
            assert f"{name} cannot be written (No space left on device)" in fails("train", *args)
        assert not list(Path().rglob("*unfinished"))
    works("train", "--resume", "run", "-q")
    assert weights(Path("run")) == weights(trained / "run")


def weights(folder: Path) -> dict[str, list[float]]:
    return {name: value.flatten().tolist() for name, value in load_file(folder / "seed-0/last/model.safetensors").items()}


# -- 7: files of users stay --------------------------------------------------------------------------------------------


def test_7_resuming_deletes_only_what_reign_wrote(run: Path) -> None:
    mine = [run / ".notes.2024", run / ".a.1", run / "seed-0" / ".plot.7z", run / ".x.reign-unfinished"]
    for file in mine:
        file.write_text("mine")
    left = run / "seed-0" / ".checkpoint.pt.0123456789abcdef.reign-unfinished"
    left.write_text("half")
    works("train", "--resume", run)
    assert all(file.exists() for file in mine)
    assert not left.exists()


def test_7_what_a_kill_leaves_is_what_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda file: os.kill(os.getpid(), signal.SIGKILL))
    if (child := os.fork()) == 0:
        write_text(tmp_path / "file", "half")
        os._exit(0)
    os.waitpid(child, 0)
    assert len(list(tmp_path.iterdir())) == 1
    remove_unfinished(tmp_path)
    assert list(tmp_path.iterdir()) == []


# -- 8: not a number ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_8_weights_that_are_not_numbers_are_refused(run: Path, value: float) -> None:
    file = run / "seed-0" / "last" / "model.safetensors"
    found = load_file(file)
    name = next(name for name, each in found.items() if each.is_floating_point())
    found[name].view(-1)[0] = value
    save_file(found, file)
    assert f"holds NaN or infinity in '{name}'" in fails("predict", "-i", "x.csv", "--model-paths", run)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0, "1", True, None])
def test_8_scales_that_are_not_numbers_are_refused(run: Path, value: Any) -> None:
    change(run / "seed-0" / "scale.json", deviation=[value])
    assert "scale.json is damaged" in fails("evaluate", run)


def test_8_a_prediction_that_is_not_a_number_is_an_error_of_its_row(run: Path) -> None:
    change(run / "seed-0" / "scale.json", deviation=[1e308], mean=[1.7e308])
    Path("in.csv").write_text("smiles\nCC\nc1ccccc1\n")
    file = run / "seed-0" / "last" / "model.safetensors"
    save_file({name: value * 50 if value.is_floating_point() else value for name, value in load_file(file).items()}, file)
    works("predict", "-i", "in.csv", "--model-paths", run, "-o", "out.csv")
    out = pd.read_csv("out.csv", keep_default_na=False)
    assert any(error == "the prediction is not a finite number" for error in out["error"])
    assert all((value == "") == bool(error) for value, error in zip(out["size_pred"].astype(str), out["error"], strict=True))


def test_8_targets_beyond_float32_are_left_out(tmp_path: Path) -> None:
    pd.DataFrame({"smiles": MOLECULES, "y": ["1e308", "-1e300", *range(len(MOLECULES) - 2)]}).to_csv("in.csv", index=False)
    works("train", "-i", "in.csv", "--target-columns", "y", "-o", "run", *SMALL)
    assert pd.read_csv("run/rows_left_out.csv")["row"].tolist() == [1, 2]
    graphs = random_graphs(4, num_features=1)
    for value, message in ((1e308, "expected at most 3e\\+38"), (torch.inf, "has infinite targets, expected finite numbers")):
        for data in graphs:
            data.y = torch.full((1, 1), value, dtype=torch.float64)
        with pytest.raises(ValueError, match=message):
            Problem.of(graphs)


def test_8_a_run_that_ends_in_nan_fails(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Model.forward
    monkeypatch.setattr(Model, "forward", lambda self, *a, **k: real(self, *a, **k) * (1 if self.training else torch.nan))
    args = ["train", "-i", trained / "mols.csv", "--target-columns", "size", "-o", "run", *SMALL]
    assert "predicts NaN or infinity" in fails(*args)
    assert not Path("run/summary.json").exists()


# -- 9: mistakes are messages ------------------------------------------------------------------------------------------


def test_9_names_with_brackets_are_not_markup(trained: Path) -> None:
    for name in ("[/x]", "[bold]", ":smile:"):
        assert name in works("train", "-i", trained / "mols.csv", "--target-columns", "size", "-o", name, *SMALL).output
        assert name in works("predict", "-i", trained / "mols.csv", "--model-paths", name, "-o", f"{name}.csv").output


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("model.in_channels=8", "model.in_channels cannot be set in a recipe: it follows from the data"),
        ("model.out_channels=1", "model.out_channels cannot be set in a recipe"),
        ("model.layer=x", "model.layer cannot be set in a recipe"),
        ("model.pooling=x", "model.pooling cannot be set in a recipe"),
        ("model.task_level=node", "model.task_level cannot be set in a recipe"),
        ("model.act=1", "model.act is 1, expected a valid string"),
        ("model.act=MultiheadAttention", "which needs arguments"),
        ("model.conv=summary", "conv is 'summary'"),
        ("model.transpose=maybe", "model.transpose is 'maybe'"),
        ("model.conv=NoConv", "conv is 'NoConv'"),
        ("model.expansion=1000000000", "GB for training"),
        ("model.node_encoder=1000000000000", "GB for training"),
        ("model.hidden_channels=1000000", "less than or equal to 100000"),
        ("model.hidden_channels=100000", "GB for training"),
        ("model.num_layers=100000", "less than or equal to 1000"),
        ("model.policy=nm+distance99999999999", "max_distance is 99999999999"),
        ("train.batch_size=1000000000000000000000000", "train.batch_size: input should be less than"),
        ("seeds=[1000000000000000000000000]", "seeds.0: input should be less than"),
        ("train.optimiser.lr=.inf", "finite number"),
        ("data.options={}", ""),
        ("data.options=[1]", "data.options: input should be a valid dictionary"),
    ],
)
def test_9_settings_that_make_no_sense(trained: Path, setting: str, why: str) -> None:
    args = ["train", "-i", trained / "mols.csv", "--target-columns", "size", "-o", "run", *SMALL, "--set", setting]
    if not why:
        works(*args)
        return
    assert why in fails(*args)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("name", "options"),
    [("counting", "kind=[1]"), ("counting", "num_graphs=1e2"), ("counting", "seed=true"), ("tu", "set={a: b}"), ("exp", "set=[]")],
)
def test_9_options_of_a_data_set_of_other_types(name: str, options: str) -> None:
    assert ", expected a value such as " in fails("data", "info", name, "--set", options)
    Path("r.yaml").write_text(f"data: {{name: {name}, options: {{{options.replace('=', ': ')}}}}}\n")
    assert ", expected a value such as " in fails("train", "r.yaml")


def test_9_an_option_of_a_data_set_that_does_not_exist() -> None:
    assert "counting has no option 'kin'; did you mean 'kind'?" in fails("data", "info", "counting", "--set", "kin=er")


def test_9_options_of_a_data_set_name_no_other_folder(tmp_path: Path) -> None:
    for kind in ("../../x", "a/b", "a\\b"):
        with pytest.raises(ValueError, match="expected a value without slashes"):
            Rings(tmp_path / "data", kind=kind)


def test_9_an_encrypted_zip(trained: Path) -> None:
    with zipfile.ZipFile("in.csv.zip", "w") as archive:
        archive.writestr("in.csv", "smiles\nCC\n")
    content = bytearray(Path("in.csv.zip").read_bytes())
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    Path("in.csv.zip").write_bytes(content)
    assert "is encrypted" in fails("predict", "-i", "in.csv.zip", "--model-paths", trained / "run")


@pytest.mark.parametrize("content", ["{}", "[]", "null", "1", '"x"', '{"members": []}'])
@pytest.mark.parametrize(
    "name",
    [
        "summary.json",
        "problem.json",
        "calibration.json",
        "seed-0/scale.json",
        "seed-0/splits.json",
        "seed-0/last/config.json",
        "recipe.yaml",
    ],
)
def test_9_json_that_is_valid_but_wrong(run: Path, name: str, content: str) -> None:
    (run / name).write_text(content)
    fails("evaluate", run)


@pytest.mark.parametrize("content", ["{}", "[]", "null", '{"metric": "rmse", "report": "best"}'])
def test_9_results_that_are_valid_but_wrong(run: Path, content: str) -> None:
    (run / "summary.json").unlink()
    (run / "seed-0" / "result.json").write_text(content)
    assert "result.json is damaged" in fails("train", "--resume", run)


@pytest.mark.parametrize("members", [[], [None], [{}], [{"folder": 1}], [{"folder": ""}], {"a": 1}, None])
def test_9_a_summary_without_models(run: Path, members: Any) -> None:
    change(run / "summary.json", members=members)
    assert "summary.json is damaged" in fails("evaluate", run)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"learner": {}, "rows": [], "best_epoch": 0, "best_weights": {}},
        {"learner": 1, "rows": 2, "best_epoch": 3, "best_weights": 4},
        "rows",
        "best_epoch",
        "best_weights",
        "shapes",
    ],
)
def test_9_a_checkpoint_that_is_valid_but_wrong(run: Path, state: Any) -> None:
    (run / "summary.json").unlink()
    (run / "seed-0" / "result.json").unlink()
    file = run / "seed-0" / "checkpoint.pt"
    good = torch.load(file, weights_only=True)
    if state == "shapes":
        good["learner"]["model"] = {name: torch.zeros(3, 3) for name in good["learner"]["model"]}
    elif isinstance(state, str):
        good[state] = {"rows": [{"epoch": "x"}], "best_epoch": 99, "best_weights": {"a": torch.zeros(1)}}[state]
    torch.save(good if isinstance(state, str) else state, file)
    assert "checkpoint.pt does not belong to this run" in fails("train", "--resume", run)


def test_9_a_model_of_another_kind(tmp_path: Path) -> None:
    DS(3, 4, 1, 1, policy="nm").save_pretrained(tmp_path / "ds")
    with pytest.raises(ValueError, match="holds a DS, expected a SUN"):
        SUN.from_pretrained(tmp_path / "ds")
    assert type(Model.from_pretrained(tmp_path / "ds")) is DS
    huge = {"in_channels": 3, "hidden_channels": 10**6, "num_layers": 10**5, "out_channels": 1, "policy": "nm"}
    wide = {**huge, "hidden_channels": 40, "num_layers": 40}
    for arguments in (huge, wide, {}, {"in_channels": 3}, {"in_channels": "x", "hidden_channels": 4, "num_layers": 1}):
        change(tmp_path / "ds" / "config.json", arguments=arguments)
        with pytest.raises(ValueError, match="is damaged: it does not describe a valid DS"):
            Model.from_pretrained(tmp_path / "ds")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_9_meta_and_nested_tensors() -> None:
    x, edge_index = torch.ones(3, 3), torch.tensor([[0, 1], [1, 0]])
    model = SUN(3, 4, 1, 1).eval()
    with pytest.raises(ValueError, match="on the device 'meta' and has no values"):
        model(x.to("meta"), edge_index.to("meta"))
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor([torch.ones(1, 3), torch.ones(2, 3)], layout=layout)
        with pytest.raises(ValueError, match="x is a nested tensor"):  # the checks of signatures in tests cannot see it
            check_shapes(nested, edge_index, None, None)
        with pytest.raises(ValueError, match="edge_attr is a nested tensor"):
            check_shapes(x, edge_index, nested, None)


@pytest.mark.parametrize("wait", [0.02, 0.1, 0.3, 0.8, 1.5])
def test_9_ctrl_c_in_the_first_second(trained: Path, wait: float) -> None:
    code = "from reign.__main__ import main; print('up', flush=True); main()"  # before that it is Python that starts
    args = [
        "train",
        "-i",
        str(trained / "mols.csv"),
        "--target-columns",
        "size",
        "-o",
        "run",
        *SMALL,
        "--set",
        "train.epochs=100000",
    ]
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # background jobs of a shell ignore it
    process = subprocess.Popen(
        [sys.executable, "-c", heard + code, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(wait)
        for _ in range(10):  # Python drops an interrupt that arrives in a destructor or a callback; a person presses again
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                _, said = process.communicate(timeout=6)
                break
        else:
            pytest.fail("the command does not stop")
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in said, said
    assert process.returncode == 2
    assert "stopped" in said


def test_9_tensorboard_is_missed_before_the_folder_is_made(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    args = ["train", "-i", trained / "mols.csv", "--target-columns", "size", "-o", "run", *SMALL]
    assert "train.tensorboard needs tensorboard" in fails(*args, "--set", "train.tensorboard=true")
    assert not Path("run").exists()
    works(*args)


# -- 10: what is shown -------------------------------------------------------------------------------------------------


def test_10_predict_shows_progress_without_a_terminal(trained: Path) -> None:
    done = works("predict", "-i", trained / "mols.csv", "--model-paths", trained / "run", "-o", "out.csv")
    assert re.search(r"predict, 23 of 24 rows, about \d+ s left", done.stderr)
    assert "predict, 24 of 24 rows" in done.stderr
    assert (
        "rows" not in works("predict", "-q", "-i", trained / "mols.csv", "--model-paths", trained / "run", "-o", "out.csv").stderr
    )


def test_10_predictions_of_a_run_have_the_smiles(trained: Path) -> None:
    table = pd.read_csv(trained / "mols.csv")
    for file in ("predictions.csv", "seed-0/predictions.csv"):
        found = pd.read_csv(trained / "run" / file)
        assert found["smiles"].tolist() == table["smiles"][found["row"] - 1].tolist()


def test_10_targets_that_were_not_given_are_named(trained: Path) -> None:
    loud = [option for option in SMALL if option != "-q"]
    frame = pd.read_csv(trained / "mols.csv").assign(mass=1.5, name="x")
    frame.to_csv("in.csv", index=False)
    said = works("train", "-i", "in.csv", "-o", "run", *loud).stderr
    assert "targets (regression): size, mass; these are all columns of numbers, use --target-columns to choose some" in said
    assert "columns of numbers" not in works("train", "-i", "in.csv", "--target-columns", "mass", "-o", "run2", *loud).stderr


def test_files_that_can_be_written(tmp_path: Path) -> None:
    check_writable(tmp_path / "new")
    write_bytes(tmp_path / "new", b"x")
    check_writable(tmp_path / "new")
    assert [file.name for file in tmp_path.iterdir()] == ["new"]
