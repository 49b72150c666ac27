"""Many models at once: the same weights as one at a time, and one that fails does not stop the others."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from reign.experiments import find_recipe
from reign.train import Callback
from reign.train.engine.execution import make_fabric
from reign.train.runs.jobs import JobThreads
from reign.train.runs.train import train, train_all
from reign.train.settings.config import Recipe

pytestmark = pytest.mark.usefixtures("signatures_unchecked")
FABRIC = make_fabric("32-true", "cpu")


def small(seeds: int, **changes: Any) -> Recipe:
    """A model with dropout, so that random numbers matter."""
    found, _ = find_recipe(
        "counting/dss-ego/star",
        {
            "seeds": list(range(seeds)),
            "data": {"limit": 8},
            "model": {"hidden_channels": 4, "num_layers": 1, "dropout": 0.3},
            "train": {"epochs": 3, "batch_size": 4},
        },
        changes,
    )
    return found


def weights(folder: Path, seeds: int) -> list[dict[str, torch.Tensor]]:
    return [load_file(folder / f"seed-{seed}" / "last" / "model.safetensors") for seed in range(seeds)]


def same(a: list[dict[str, torch.Tensor]], b: list[dict[str, torch.Tensor]]) -> bool:
    return all(torch.equal(x[name], y[name]) for x, y in zip(a, b, strict=True) for name in x)


class Started(Callback):
    """Which models were told of at the same time."""

    def __init__(self) -> None:
        self.labels: list[str] = []

    def job(self, label: str, number: int, total: int) -> Callback:
        self.labels.append(label)
        return self


def test_threads_that_take_turns_train_the_same_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = train(small(3), tmp_path / "turn", fabric=FABRIC)
    monkeypatch.setattr(
        "reign.train.runs.train.run_jobs", lambda jobs, fabric, callback, number: JobThreads(jobs, fabric, callback, 3).run()
    )
    told = Started()
    summary = train(small(3), tmp_path / "once", fabric=FABRIC, callback=told)
    assert told.labels == ["seed-0", "seed-1", "seed-2"]
    assert len(summary["test"]["values"]) == 3
    assert 1 < summary["members"][1]["models_at_once"] <= 3
    assert alone["members"][1]["models_at_once"] == 1
    one, other = weights(tmp_path / "turn", 3), weights(tmp_path / "once", 3)
    assert same(one, other)
    assert not same(one[:2], one[1:])


def test_processes_train_the_same_weights(tmp_path: Path) -> None:
    train(small(2), tmp_path / "turn", fabric=FABRIC)
    told = Started()
    train(small(2), tmp_path / "once", fabric=FABRIC, callback=told, jobs=2)
    assert told.labels == ["seed-0", "seed-1"]
    assert same(weights(tmp_path / "turn", 2), weights(tmp_path / "once", 2))


def test_one_that_fails_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(recipe: Recipe, member: Any, *rest: Any) -> None:
        if member.seed == 1 and member.folder.parent.name == "a":
            raise ValueError("no luck")
        real(recipe, member, *rest)

    from reign.train.runs.jobs import train_member as real

    monkeypatch.setattr("reign.train.runs.jobs.train_member", fails)
    plans = [(small(3), tmp_path / "a"), (small(1), tmp_path / "b")]
    with pytest.raises(ValueError, match=r"seed-1: no luck \(3 of 4 models are done\)"):
        train_all(plans, fabric=FABRIC)
    assert (tmp_path / "a" / "seed-2" / "result.json").is_file()
    assert (tmp_path / "b" / "seed-0" / "result.json").is_file()
    assert [(tmp_path / run / "summary.json").is_file() for run in "ab"] == [False, True]
    monkeypatch.undo()
    found = train_all(plans, fabric=FABRIC, resume=True)
    assert [len(each.test.values) for each in found] == [3, 1]


def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C stops all threads, and the runs can be continued."""

    class Impatient(JobThreads):
        def _room(self) -> bool:
            if self.settled:
                raise KeyboardInterrupt
            return super()._room()

    monkeypatch.setattr(
        "reign.train.runs.train.run_jobs", lambda jobs, fabric, callback, number: Impatient(jobs, fabric, callback, 2).run()
    )
    recipe = small(2, train={"epochs": 40})
    with pytest.raises(KeyboardInterrupt):
        train(recipe, tmp_path / "run", fabric=FABRIC)
    assert not (tmp_path / "run" / "seed-0" / "result.json").is_file()
    monkeypatch.undo()
    assert len(train(recipe, tmp_path / "run", resume=True, fabric=FABRIC)["test"]["values"]) == 2
