"""The summary of a run: a valid one is read as it was written, and the message for a damaged one names the field and the value."""

import json
from pathlib import Path
from typing import Any

import pytest

from reign.disk import write_json
from reign.train.runs.run import Run

SPREAD = {"mean": 2.0, "std": 1.0, "values": [1.0, 3.0]}
MEMBERS = [
    {"folder": f"seed-{s}", "seed": s, "best": {"val": v}, "last": {"val": 5.0}} for s, v in enumerate((3.0, 1.0, float("inf")))
]
GOOD: dict[str, Any] = {
    "metric": "mae",
    "report": "best",
    "parameters": 7,
    "val": {"seed": 0, "epoch": 4, **SPREAD},
    "ensemble": {"size": 3, "test": 1.5},
    "metrics": {split: {"mae": {**SPREAD, "targets": {"a": 1.0, "b": 3.0}}} for split in ("train", "val")},
    "seconds": 2.5,
    "of_a_later_version": [1],
    "members": MEMBERS,
}


def test_a_valid_summary_is_read_as_it_is(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", GOOD)
    run = Run(tmp_path)
    assert json.dumps(run.summary.to_dict(), sort_keys=True) == json.dumps(GOOD, sort_keys=True)
    assert run.best_member.folder == tmp_path / "seed-1"
    assert (list(run.summary.splits), run.summary.val.epoch, run.summary.metrics["val"]["mae"].targets["b"]) == (["val"], 4, 3.0)
    assert [member.of("best")["val"] for member in run.summary.members] == [3.0, 1.0, float("inf")]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("metric", "mea", "metric: unknown metric 'mea'; did you mean 'mae'?"),
        ("report", "worst", "report: input should be 'best' or 'last' (got 'worst')"),
        ("parameters", True, "parameters: input should be a valid integer (got True)"),
        ("seconds", None, "seconds: input should be a valid number (got None)"),
        ("val", None, "val: input should be a valid dictionary (got None)"),
        ("test", {"mean": 1.0, "std": "0", "values": []}, "test.std: input should be a valid number (got '0')"),
        ("best_train", {"mean": 1.0, "std": 0.0, "values": [1.0, None]}, "best_train.values.1: input should be a valid number"),
        ("ensemble", {"test": 1.0}, "ensemble.size: field required"),
        ("metrics", {"val": {"mae": {}}}, "metrics.val.mae.mean: field required"),
        ("metrics", {"train": {"mae": {"mean": 1.0}}, "val": {}}, "expected the same metrics and targets for all splits"),
        ("members", [], "members: list should have at least 1 item"),
        ("members", ["seed-0"], "members.0: input should be a valid dictionary (got 'seed-0')"),
        ("members", [*MEMBERS, {"folder": "a\0"}], "members.3.folder: string should match pattern"),
        ("members", "x" * 1000, f"members: input should be a valid list (got '{'x' * 99})"),
    ],
)
def test_a_damaged_summary(tmp_path: Path, field: str, value: object, message: str) -> None:
    file = tmp_path / "summary.json"
    write_json(file, {**GOOD, field: value})
    with pytest.raises(ValueError, match="which writes it anew") as error:
        _ = Run(tmp_path).summary
    assert str(error.value).startswith(f"{file} is damaged (")
    assert message in str(error.value)


@pytest.mark.parametrize("content", ["[]", "null", "7"])
def test_a_summary_that_is_no_object(tmp_path: Path, content: str) -> None:
    (tmp_path / "summary.json").write_text(content)
    with pytest.raises(ValueError, match=r"summary.json is damaged \(input should be a valid dictionary \(got "):
        _ = Run(tmp_path).summary


def test_models_outside_of_the_run(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", {**GOOD, "members": [*MEMBERS, {"folder": "../elsewhere"}]})
    with pytest.raises(ValueError, match=r"refers to the folder ../elsewhere, which is outside the run; do not use this run"):
        _ = Run(tmp_path).summary


def test_the_best_of_models_without_a_validation_metric(tmp_path: Path) -> None:
    write_json(tmp_path / "summary.json", {**GOOD, "members": [*MEMBERS, {"folder": "seed-3"}]})
    with pytest.raises(ValueError, match="has no validation metric"):
        _ = Run(tmp_path).best_member
