"""Commands as a user runs them."""

import csv
import json
from pathlib import Path

import pytest
import torch

from commands import reign


def test_separate(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    done = reign("separate", "rook", "--model", "ds:ed/3", "--model", "mpnn", "--wl", "1", "--wl", "3", "--csv", str(out))
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert list(rows[0]) == ["pair", "method", "separated", "layer", "margin"]
    told = {("ds:ed/3", "1", "3"), ("mpnn", "0", ""), ("1-WL", "0", ""), ("3-WL", "0", "")}
    assert {(row["method"], row["separated"], row["layer"]) for row in rows} == told
    assert all((row["margin"] == "") == row["method"].endswith("WL") for row in rows)
    assert "Pairs of rook told apart" in done.stdout


def test_separate_a_list_of_terms_and_colour_tests() -> None:
    args = ("--terms", "own,local,transpose", "--root-terms", "own", "--wl", "sun:nm", "--wl", "ds:nm/1", "--each", "--act", "none")
    done = reign("separate", "triangles", *args)
    assert done.exit_code == 0, done.output
    assert "C6 / 2xC3, sun:nm colours: separated at layer 2 (exact)" in done.stdout
    assert "C6 / 2xC3, ds:nm/1 colours: not separated (exact)" in done.stdout
    assert "C6 / 2xC3, own, local, transpose (roots: own): separated at layer 2 (exact)" in done.stdout


def test_separate_says_what_decides() -> None:
    """Exact arithmetic, whatever the margins are, unless --float is given; without margins, nothing is said of them."""
    said = {
        option: " ".join(reign("separate", "triangles", "--model", "mpnn", *option.split()).stdout.split())
        for option in ("", "--act none", "--float")
    }
    assert "The number of separated pairs is exact." in said[""]
    assert "argin" not in said["--act none"].partition("Layers (or rounds)")[2]
    assert "exact" not in said["--float"]
    assert "A model separates a pair if the margin" in said["--float"]


def test_separate_lists_its_families() -> None:
    done = reign("separate", "--list")
    assert done.exit_code == 0
    assert all(name in done.stdout for name in ("triangles", "csl", "rook", "exp"))


def test_mistakes_exit_with_2_and_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.g6"
    bad.write_text("Es\n")
    for args, message in (
        (["separate"], "give a family or a file of pairs"),
        (["separate", "rook"], "nothing to try: give --model"),
        (["separate", "rok", "--wl", "1"], "unknown family 'rok'; did you mean 'rook'?"),
        (["separate", "rook", "--model", "sunn:nm"], "unknown model 'sunn'; did you mean 'sun'?"),
        (["separate", "rook", "--model", "sun:eggo"], "unknown policy 'eggo'"),
        (["separate", str(bad), "--wl", "1"], "line 1: b'Es' is not a graph in graph6 format"),
        (["separate", "rook", "--wl", "1", "--act", "relu"], "--act is 'relu', expected silu, sine or none"),
        (["card"], "give either a model, such as sun:nm, or --terms, such as own,local"),
        (["card", "--terms", "own,lokal"], "unknown term 'lokal'; did you mean 'local'"),
        (["card", "sun:nm", "-o", str(tmp_path / "no" / "folder.md")], "cannot be written, because the folder"),
    ):
        done = reign(*args)
        assert done.exit_code == 2, (args, done.stdout, done.stderr)
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_models_and_card(tmp_path: Path) -> None:
    done = reign("models")
    assert done.exit_code == 0
    assert "gnnakplus" in done.stdout
    page = tmp_path / "card.md"
    done = reign("card", "mpnn/2", "--family", "rook", "-o", str(page))
    assert done.exit_code == 0, done.output
    assert page.read_text().startswith("# MPNN(")
    assert "1-WL: message passing on the graph itself" in done.stdout
    done = reign("card", "--terms", "own,local,swap_local", "--policy", "nm", "--layers", "2", "--family", "triangles")
    assert done.exit_code == 0, done.output
    assert "inside the ReIGN(2) table, so 3-WL bounds them: own, local" in done.stdout
    assert "outside the table, but bounded by 3-WL: swap_local" in done.stdout
    assert "triangles: 1 of 1 pair in 2 rounds; with the model's layers 1" in done.stdout


TINY = ["--batch-size", "4", "--layers", "1", "--width", "8", "--repeats", "1", "--device", "cpu"]


def test_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    out = tmp_path / "bench.json"
    done = reign("bench", *TINY, "--json", str(out))
    assert done.exit_code == 0, done.output
    assert "Training step of sun 1 x 8, ego+:3" in done.stdout
    assert "random graphs" in done.stdout
    assert done.stderr == ""
    found = json.loads(out.read_text())
    kinds = {
        **dict.fromkeys(("model", "policy", "device", "data", "precision"), str),
        **dict.fromkeys(("batch_size", "hidden_channels", "num_layers", "repeats", "nodes", "pairs"), int),
        **dict.fromkeys(("environment", "steps", "floor"), dict),
        **dict.fromkeys(("store_bytes", "frame_bytes", "kernels_of"), type(None)),
        **dict.fromkeys(("kernels", "notes"), list),
    }
    assert {name: type(value) for name, value in found.items()} == kinds
    assert list(found["environment"]) == ["date", "reign", "torch", "device_name", "cores", "threads"]
    assert list(found["floor"]) == ["seconds", "bytes", "bytes_per_second"]
    assert list(found["steps"]) == ["plain", "yardstick"]
    for step in found["steps"].values():
        figures = "seconds peak_bytes graphs_per_second times_floor speedup_over_yardstick share_of_yardstick_memory"
        assert list(step) == figures.split()
        assert all(value > 0 for value in step.values())
        assert step["graphs_per_second"] == pytest.approx(4 / step["seconds"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--batch-size", "0"], "--batch-size is 0, expected at least 1."),
        (["--layers", "-1"], "--layers is -1, expected at least 1."),
        (["--width", "0"], "--width is 0, expected at least 1."),
        (["--repeats", "0"], "--repeats is 0, expected at least 1."),
        (["--device", "tpu"], "device is 'tpu', expected 'auto', 'cpu' or 'cuda'."),
        (["--model", "sunn"], "unknown model 'sunn'; did you mean 'sun'?"),
        (["--policy", "egg"], "unknown policy 'egg'"),
        (["--policy", "ed"], "SUN needs one subgraph per node"),
        (["--json", "no/such/folder.json"], "cannot be written, because the folder"),
    ],
)
def test_bench_refuses_what_it_cannot_measure(args: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    done = reign("bench", *TINY, *args)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_bench_says_that_there_is_no_gpu() -> None:
    done = reign("bench", "--device", "cuda")
    assert (done.exit_code, done.stderr) == (2, "reign: device is 'cuda', but this machine has no GPU; use 'cpu'.\n")
