"""Past one process: folders of tables on a Ray cluster, one of whose workers is killed, and training on two nodes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pytest

from reign.disk import read_json
from reign.experiments import find_recipe
from reign.train import Predictor, load, train
from reign.train.predict.shards import predict_folder

pytestmark = pytest.mark.usefixtures("signatures_unchecked")

SOURCE = Path(__file__).parents[2] / "src"
CARBON = [start + "C" * n + end for start in ("", "c1ccccc1", "C1CC1") for end in ("", "O", "N", "F") for n in range(1, 14)]


@pytest.fixture
def predictor(tmp_path: Path) -> Predictor:
    pd.DataFrame({"smiles": CARBON, "size": [len(text) / 3 for text in CARBON]}).to_csv(tmp_path / "mols.csv", index=False)
    recipe, _ = find_recipe(
        "molecules",
        {"data": {"path": str(tmp_path / "mols.csv"), "target_columns": ["size"]}},
        {"model": {"hidden_channels": 8, "num_layers": 1}, "train": {"epochs": 1}},
    )
    train(recipe, tmp_path / "run")
    return load(tmp_path / "run")


def test_without_ray_the_extra_is_named(predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    pd.DataFrame({"smiles": CARBON}).to_csv(tmp_path / "in" / "a.csv", index=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs Ray Data: pip install 'reign\[scale\]'"):
        predict_folder(predictor, tmp_path / "in", tmp_path / "out", engine="ray")


def kill_one(folder: Path, killed: list[int]) -> None:
    """Kill the first process that has written a chunk, found by the lock that it holds."""
    while not killed:
        for lock in folder.glob(".*.reign-partial/.lock"):
            try:
                words = lock.read_text().split()
            except OSError:
                continue
            if len(words) > 1 and list(lock.parent.glob("*.part")):
                os.kill(int(words[1]), signal.SIGKILL)
                killed.append(int(words[1]))
                return
        time.sleep(0.01)


@pytest.mark.slow
def test_a_killed_command_goes_on_and_leaves_no_process(predictor: Predictor, tmp_path: Path) -> None:
    texts = (CARBON * 200)[:20_000]
    pd.DataFrame({"smiles": texts}).to_csv(tmp_path / "in.csv", index=False)
    env = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    start = [sys.executable, "-m", "reign", "predict", "-i", "in.csv", "--model-paths", "run", "--num-workers", "2", "-q", "-o"]
    process = subprocess.Popen([*start, "out.csv"], cwd=tmp_path, env=env)
    children: list[str] = []
    while not list(tmp_path.glob(".out.csv.reign-partial/*.part")):
        assert process.poll() is None
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split() or children
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert len(children) == 2
    assert not (tmp_path / "out.csv").exists()
    end = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < end, "processes that read SMILES are left"
        time.sleep(0.1)
    for name in ("out.csv", "whole.csv"):
        assert subprocess.run([*start, name], cwd=tmp_path, env=env, capture_output=True).returncode == 0
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
    assert pd.read_csv(tmp_path / "out.csv")["smiles"].tolist() == texts
    assert not list(tmp_path.glob(".*"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of Ray
def test_ray_with_a_killed_worker_gives_the_same_tables(
    predictor: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'reign[scale]'")
    pytest.importorskip("ray.data", reason="Ray Data is not installed: pip install 'reign[scale]'")
    shards = tmp_path / "in"
    shards.mkdir()
    for number in range(4):
        texts = [*CARBON[number::4] * 3, "xyz"]
        frame = pd.DataFrame({"smiles": texts, "n": range(len(texts))})
        if number == 3:
            frame.to_parquet(shards / "part-3.parquet", index=False)
        else:
            frame.to_csv(shards / f"part-{number}.csv", index=False)
    here = predict_folder(predictor, shards, tmp_path / "here", chunk_rows=4)
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    killed: list[int] = []
    watcher = threading.Thread(target=kill_one, args=(tmp_path / "there", killed), daemon=True)
    watcher.start()
    try:
        there = predict_folder(predictor, shards, tmp_path / "there", engine="ray", num_actors=2, chunk_rows=4)
    finally:
        killed = killed or [0]
        ray.shutdown()
    assert killed != [0], "no worker was killed"
    assert (there.rows, there.failed, there.warned) == (here.rows, here.failed, here.warned)
    assert (here.rows, here.failed) == (4 * 118, 4)
    names = sorted(file.name for file in (tmp_path / "here").iterdir())
    assert names == ["part-0.csv", "part-1.csv", "part-2.csv", "part-3.parquet"]
    assert sorted(file.name for file in (tmp_path / "there").iterdir()) == names
    for name in names:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    assert pd.read_csv(tmp_path / "there" / "part-1.csv")["n"].tolist() == list(range(118))


@pytest.mark.slow
def test_two_nodes_train_the_same_model_as_one_process(tmp_path: Path) -> None:
    """``torchrun`` on two nodes of one process each, which both run on this machine."""
    pd.DataFrame({"smiles": CARBON, "size": [len(text) / 3 for text in CARBON]}).to_csv(tmp_path / "mols.csv", index=False)
    options = ["--set", "model.hidden_channels=8", "--set", "model.num_layers=1", "--set", "train.precision=64-true", "-b", "16"]
    command = ["train", "-i", "mols.csv", "--target-columns", "size", "--epochs", "2", "--no-report", "-q", *options]
    command += ["--accelerator", "cpu"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    start = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1"]

    def begin(start: list[str], folder: str) -> "subprocess.Popen[str]":
        args = [*start, "-m", "reign", *command, "-o", folder]
        return subprocess.Popen(args, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    nodes = [begin([*start, "--master-port", str(port), "--node-rank", str(rank)], "two") for rank in range(2)]
    nodes.append(begin([sys.executable], "one"))
    said = [node.communicate(timeout=600)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0, 0], said
    assert read_json(tmp_path / "two" / "environment.json")["processes"] == 2
    one, two = (read_json(tmp_path / name / "summary.json") for name in ("one", "two"))
    assert two["val"]["mean"] == pytest.approx(one["val"]["mean"], rel=1e-6)
    assert load(tmp_path / "two").predict(CARBON[:5])["size_pred"].tolist() == pytest.approx(
        load(tmp_path / "one").predict(CARBON[:5])["size_pred"].tolist(), rel=1e-6
    )
