"""Commands as a user runs them."""

import csv
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from rich.console import Console
from rich.progress import Progress
from typer.main import get_command

from commands import reign
from reign.cli import app, progress
from reign.cli.training import summary_table
from reign.plots._report import band
from reign.theory import census, family, separate, wl
from reign.train.engine.callbacks import Callback, Forward
from reign.train.runs.results import Summary


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
    args = (
        "--terms",
        "own,local,transpose",
        "--root-terms",
        "own",
        "--wl",
        "sun:nm",
        "--wl",
        "ds:nm/1",
        "--per-pair",
        "--act",
        "none",
    )
    done = reign("separate", "triangles", *args)
    assert done.exit_code == 0, done.output
    assert "C6 / 2xC3, sun:nm colours: separated at layer 2 (exact)" in done.stdout
    assert "C6 / 2xC3, ds:nm/1 colours: not separated (exact)" in done.stdout
    assert "C6 / 2xC3, own, local, transpose (roots: own): separated at layer 2 (exact)" in done.stdout


def test_separate_policies_of_two_nodes() -> None:
    args = (
        "--wl",
        "ds:nm",
        "--wl",
        "ds:2-set-nd",
        "--model",
        "tuplesun:2-nm/2",
        "--terms",
        "own,local,own_root:1,own_root:2",
        "--policy",
        "2-null",
    )
    done = reign("separate", "rook", *args, "--act", "none", "--per-pair")
    assert "rook / Shrikhande, ds:nm colours: not separated (exact)" in done.stdout
    assert "rook / Shrikhande, ds:2-set-nd colours: separated at layer 2 (exact)" in done.stdout
    assert "rook / Shrikhande, tuplesun:2-nm/2: separated at layer 2 (exact)" in done.stdout
    assert "rook / Shrikhande, own, local, own_root:1, own_root:2: separated at layer 3 (exact)" in done.stdout
    wrong = reign("separate", "rook", "--terms", "own,needle:1", "--policy", "2-set-nm", "--act", "none")
    assert wrong.exit_code == 2
    assert "term 'needle:1' needs roots in an order" in " ".join(wrong.output.split())


def test_separate_compares_several_lists_of_terms() -> None:
    """The n-th --root-terms are for the n-th --terms."""
    done = reign(
        "separate",
        "triangles",
        "--terms",
        "own,local",
        "--terms",
        "own",
        "--root-terms",
        "none",
        "--root-terms",
        "own",
        "--act",
        "none",
        "--per-pair",
    )
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line.startswith("C6 / 2xC3, ")]
    assert lines == [
        "C6 / 2xC3, own, local colours: separated at layer 2 (exact)",
        "C6 / 2xC3, own (roots: own) colours: not separated (exact)",
        "C6 / 2xC3, own, local: separated at layer 2 (exact)",
        "C6 / 2xC3, own (roots: own): not separated (exact)",
    ]
    alone = reign("separate", "triangles", "--terms", "own,local", "--act", "none", "--per-pair").stdout
    assert lines[0] in alone
    assert lines[2] in alone


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            "separate rook --terms own --root-terms own --root-terms own",
            "--terms is given 1 times and --root-terms 2 times; give one",
        ),
        ("separate rook --terms own --terms local --root-terms own", "--terms is given 2 times and --root-terms 1 times; give one"),
        ("separate rook --wl 1 --root-terms own", "--terms is given 0 times and --root-terms 1 times; give one"),
        ("separate rook --terms own,local --terms own,local", "the model of the terms own, local is given 2 times; give it once."),
        ("separate rook --model ds:nm --model ds:nm --act none", "ds:nm is given 2 times, and its pairs would be counted as often"),
        (
            "separate rook --wl 1 --wl 01 --act none",
            "1-WL is given 2 times, and its pairs would be counted as often; give it once.",
        ),
        ("card sun --root-terms own", "--root-terms belongs to --terms"),
        ("show layer sun --root-terms own", "--root-terms belongs to --terms"),
    ],
)
def test_models_that_are_unclear_are_refused(args: str, message: str) -> None:
    done = reign(*args.split())
    assert done.exit_code == 2
    assert message in done.stderr


# -- progress ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    yield now
    monkeypatch.undo()


def test_lines_within_an_epoch_have_an_estimate(clock: list[float]) -> None:
    """Without a terminal, a line comes after ten seconds without one, and then once a minute."""
    out = StringIO()
    bars = progress.ProgressBars(Console(file=out, width=200), Progress(disable=True))

    def at(second: float, *event: Any) -> str:
        clock[0] = second
        out.seek(0)
        out.truncate()
        if event:
            getattr(bars, event[0])(*event[1:])
        bars.speak()
        return out.getvalue()

    assert at(0, "member", "seed-0", 0, 1) == ""
    assert at(9) == ""
    assert at(12) == "seed-0, the first batch, 12 s so far\n"
    assert at(20, "batch", "epoch 1 of 3", 1, 101) == ""
    assert at(30, "batch", "epoch 1 of 3", 11, 101) == ""
    assert at(73) == "seed-0, epoch 1 of 3, batch 11 of 101, 53 s so far, about 1 min 30 s to the last batch\n"
    assert at(120, "batch", "epoch 1 of 3", 101, 101) == ""
    assert at(200) == ""  # the epoch is done, and validation has not begun
    assert at(200, "epoch", {"epoch": 0, "lr": 1.0, "train_loss": 1.0}, 3, True) == (
        "seed-0, epoch 1 of 3: train loss 1, about 6 min 40 s left\n"
    )
    assert at(270) == "seed-0, epoch 2 of 3, the first batch, 1 min 10 s so far\n"
    assert at(300, "epoch", {"epoch": 1, "lr": 1.0, "train_loss": 1.0}, 3, True) == (
        "seed-0, epoch 2 of 3: train loss 1, about 1 min 40 s left\n"  # the first epoch also compiles, and no longer counts
    )
    at(390, "epoch", {"epoch": 2, "lr": 1.0, "train_loss": 1.0}, 3, True)
    assert at(460) == "seed-0, evaluation, 1 min 10 s so far\n"


def test_lines_of_loops_in_loops(clock: list[float]) -> None:
    out = StringIO()
    bars = progress.ProgressBars(Console(file=out, width=200), Progress(disable=True))
    for item in bars.track("ab", "outer"):
        for _ in bars.track(range(4), "inner") if item == "b" else ():
            clock[0] += 11
            bars.speak()
        clock[0] += 61
        bars.speak()
    assert out.getvalue().splitlines() == [
        "outer, 0 of 2, 1 min 1 s so far",
        "inner, 0 of 4, 11 s so far",
        "outer, 1 of 2, 2 min 46 s so far, about 1 min 1 s left",
    ]
    assert bars.work == []


def test_rounds_are_alike(clock: list[float]) -> None:
    """After the first line about one of them, the next comes after a minute."""
    out = StringIO()
    bars = progress.ProgressBars(Console(file=out, width=200), Progress(disable=True))
    for number in range(9):
        for _ in bars.track("ab", f"round {number}, node"):
            clock[0] += 11
            bars.speak()
    assert out.getvalue().splitlines() == [
        "round 0, node, 0 of 2, 11 s so far",
        "round 3, node, 0 of 2, 11 s so far",
        "round 6, node, 0 of 2, 11 s so far",
    ]


def test_a_step_that_reports_nothing_is_not_silent(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.0)
    monkeypatch.setattr(progress, "PERIOD", 0.01)
    for loud in (True, False):
        with progress.showing_progress(loud) as callback:
            for _ in callback.track(["only"], "long work"):
                time.sleep(0.2)
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", "long work, 0 s so far\n" if loud else "")


def test_models_that_are_trained_at_once_share_the_lines(clock: list[float]) -> None:
    out = StringIO()
    bars = progress.ProgressBars(Console(file=out, width=200), Progress(disable=True))
    one, two = (bars.job(f"seed-{seed}", seed, 2) for seed in range(2))
    for done in (1, 2):
        for job in (one, two):
            job.batch("epoch 1 of 9", done, 3)
        clock[0] += 11
    bars.speak()
    assert out.getvalue() == "seed-1 (2 of 2), epoch 1 of 9, batch 2 of 3, 22 s so far, about 11 s to the last batch\n"
    assert list(one.track("ab", "work")) == ["a", "b"]


def test_events_are_passed_on() -> None:
    heard: list[Any] = []

    class Hears(Callback):
        def __getattribute__(self, name: str) -> Any:
            return lambda *values: heard.append((name, *values))

    passing = Forward(Hears())
    events = {
        "batch": ("train", 1, 2),
        "track": ([1], "work"),
        "epoch": ({"epoch": 0}, 3, True),
        "member": ("seed-0", 0, 1),
        "note": ("note",),
    }
    for name, values in events.items():
        getattr(passing, name)(*values)
    assert heard == [(name, *values) for name, values in events.items()]


def test_separate_says_how_much_work_it_is() -> None:
    labels = []
    pairs = family("triangles")
    separate(pairs, ["ds:nm/2"], ["ds:nm", 3], act=None, progress=lambda items, label: labels.append(label) or items)  # type: ignore[func-returns-value]
    size = "up to 36 pairs (subgraph, node) and 72 messages per graph"
    assert labels == [
        f"ds:nm colours, {size}",
        "3-WL, up to 36 tuples per graph with 6 neighbours each",
        "3-WL, round 1, graph",
        "3-WL, round 1, node",
        "3-WL, round 1, node",
        f"ds:nm/2, {size}",
        "ds:nm/2, layer",
    ]


def test_rounds_of_wl_tests_have_an_estimate() -> None:
    """From the graphs, or from the first nodes of tuples, that are done in a round."""
    loops: list[tuple[str, int]] = []
    graphs = [pair.one for pair in family("triangles")] * 3
    found = census(graphs, rounds=1, progress=lambda items, label: loops.append((label, len(items))) or items)  # type: ignore[arg-type, func-returns-value]
    assert (found.alike, loops) == (3, [("1-WL, round 1, graph", 3)])
    loops.clear()
    wl(graphs[:1], 2, folklore=True, progress=lambda items, label: loops.append((label, len(items))) or items)  # type: ignore[arg-type, func-returns-value]
    assert loops[:2] == [("3-WL, round 1, graph", 1), ("3-WL, round 1, node", 6)]


def test_commands_with_long_work_can_be_quiet() -> None:
    quick = {
        "recipes",
        "results",
        "models",
        "policies",
        "explore",
        "data list",
        "data example",
        "show curves",
        "show layer",
        "show layers",
        "show orbits",
    }
    loud = {
        " ".join(path) for path, command in commands(get_command(app)) if not any("-q" in option.opts for option in command.params)
    }
    assert loud == quick


# -- tables of results -------------------------------------------------------------------------------------------------


def test_the_title_and_the_caption_of_results_have_one_line_each() -> None:
    found = {split: {"mean": 1.0, "std": 0.0, "values": [1.0]} for split in ("train", "val", "test")}
    summary = {
        "metric": "mae",
        "members": [{"folder": "seed-0"}],
        "parameters": 123456,
        "seconds": 1234.0,
        "report": "last",
        "average": 10.0,
        **found,
    }
    out = StringIO()
    Console(file=out, width=80).print(summary_table(Summary.model_validate(summary)).rich())
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "mae, weights of the last epoch, averaged over about 10 epochs"
    assert lines[-1].strip() == "123,456 weights, 1234 s of training"
    assert len(lines) == 9


def test_curves_count_epochs_from_one() -> None:
    """As the progress of training does."""
    curve = band([{"train_loss": [3.0, 2.0, 1.0]}, {"train_loss": [1.0, 2.0]}], "train_loss")
    assert (curve.x, curve.y) == ([1, 2, 3], [2.0, 2.0, 1.0])


# -- options that are given twice --------------------------------------------------------------------------------------


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    below = getattr(command, "commands", {})
    for name, each in below.items():
        yield from commands(each, (*path, name))
    if not below:
        yield path, command


@pytest.mark.parametrize(
    ("path", "command"), list(commands(get_command(app))), ids=lambda each: " ".join(each) if isinstance(each, tuple) else ""
)
def test_an_option_of_one_value_is_given_once(path: tuple[str, ...], command: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """For every option of every command, by each of its names. Flags and options that can be repeated are accepted."""

    def parse(*args: str) -> str:
        with suppress(typer.Exit, typer.BadParameter):  # arguments may be missing, which comes after the check
            command.make_context(path[-1], list(args)).close()
        return capsys.readouterr().err

    for option in command.params:
        if option.param_type_name == "argument":
            continue
        for name, again in product(option.opts, option.opts):
            if option.is_flag:
                assert "give it once" not in parse(name, again)
            elif option.multiple:
                assert "give it once" not in parse(name, "1", again, "2")
            else:
                assert "is given 2 times, but takes one value; give it once.\n" in parse(name, "1", again, "2")
                assert parse(name, "1", again, "1").startswith(f"reign: {'/'.join(option.opts)} is given 2 times")
        if option.secondary_opts:
            assert "is given in both forms" in parse(option.opts[0], option.secondary_opts[0])
            assert "both forms" not in parse(option.secondary_opts[0], option.secondary_opts[0])


def test_an_option_given_twice_is_one_line_and_exit_code_2() -> None:
    for args in (["train", "zinc", "--epochs", "1", "--epochs", "2"], ["show", "bag", "house", "-o", "a.svg", "--output", "b.svg"]):
        done = reign(*args)
        assert done.exit_code == 2
        assert len(done.output.splitlines()) == 1


def test_separate_says_what_decides() -> None:
    """Exact arithmetic, whatever the margins are, unless --approximate is given; without margins, nothing is said of them."""
    said = {
        option: " ".join(reign("separate", "triangles", "--model", "mpnn", *option.split()).stdout.split())
        for option in ("", "--act none", "--approximate")
    }
    assert "The number of separated pairs is exact." in said[""]
    assert "argin" not in said["--act none"].partition("Layers (or rounds)")[2]
    assert "exact" not in said["--approximate"]
    assert "A model separates a pair if the margin" in said["--approximate"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["separate", "triangles", "--model", "mpnn", "--float", "--each"], ["--approximate", "--per-pair"]),
        (["bench", "--device=tpu"], ["--accelerator=tpu"]),
    ],
)
def test_old_spellings_of_options(old: list[str], new: list[str]) -> None:
    before, now = reign(*old), reign(*old[: -len(new)], *new)
    assert (before.exit_code, before.output) == (now.exit_code, now.output)
    assert "No such option" not in now.output


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


TINY = {"--batch-size": "4", "--layers": "1", "--width": "8", "--repeats": "1", "--accelerator": "cpu"}


def test_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    out = tmp_path / "bench.json"
    done = reign("bench", *chain(*TINY.items()), "--json", str(out))
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
        (["--accelerator", "tpu"], "accelerator is 'tpu', expected 'auto', 'cpu' or 'gpu'."),
        (["--model", "sunn"], "unknown model 'sunn'; did you mean 'sun'?"),
        (["--policy", "egg"], "unknown policy 'egg'"),
        (["--policy", "ed"], "SUN needs one subgraph per node"),
        (["--json", "no/such/folder.json"], "cannot be written, because the folder"),
    ],
)
def test_bench_refuses_what_it_cannot_measure(args: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REIGN_DATA", raising=False)
    done = reign("bench", *chain(*(TINY | {args[0]: args[1]}).items()))
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_bench_says_that_there_is_no_gpu() -> None:
    done = reign("bench", "--accelerator", "cuda")
    assert (done.exit_code, done.stderr) == (2, "reign: accelerator is 'cuda', but this machine has no GPU; use 'cpu'.\n")
