"""Losses, metrics, optimisers and schedules by name: a new one is one entry in one registry."""

from importlib import import_module

import pytest
import torch

import reign
from learning import learn
from reign.train import Training
from reign.train.settings.losses import LOSSES, choose, register_loss
from reign.train.settings.metrics import METRICS, MeanOverLabels
from reign.train.settings.optim import OPTIMISERS, SCHEDULES, Schedule

pytestmark = pytest.mark.usefixtures("signatures_unchecked")


def test_a_new_optimiser_needs_one_entry() -> None:
    with pytest.raises(ValueError, match="unknown optimiser 'rms'"):
        Training.model_validate({"optimiser": {"name": "rms"}})
    OPTIMISERS.register("rms")(lambda weights, *, lr, **others: torch.optim.RMSprop(weights, lr=lr))
    new = learn(config={"optimiser": {"name": "rms"}})["last"]["train"]
    assert new != learn()["last"]["train"]


def test_a_new_metric_needs_one_entry() -> None:
    METRICS.register("twice_mae")(MeanOverLabels(tasks=("regression",), each=lambda out, y: 2 * (out - y).abs()))
    new = learn(config={"metric": "twice_mae"})
    assert choose(METRICS, None, "regression") == "rmse"
    assert new["last"]["train"] == pytest.approx(2 * learn()["last"]["train"])


def test_a_new_loss_needs_one_entry() -> None:
    register_loss("huber", "regression")(lambda out, y: torch.nn.functional.huber_loss(out, y, reduction="none"))
    assert learn(config={"loss": "huber"})["last"]["train"] != learn()["last"]["train"]
    with pytest.raises(ValueError, match="the task is multiclass; expected cross_entropy"):
        choose(LOSSES, "huber", "multiclass")


def test_a_new_schedule_needs_one_entry() -> None:
    class Halve(Schedule):
        def after_epoch(self, value: float) -> None:
            for group in self.optimiser.param_groups:
                group["lr"] /= 2

    SCHEDULES.register("halve")(Halve)
    assert learn(config={"schedule": {"name": "halve"}, "epochs": 50, "stop_lr": 3e-4})["epochs"] == 2


def test_what_other_tests_registered_is_forgotten() -> None:
    assert not {"rms", "huber", "halve", "twice_mae"} & {*OPTIMISERS, *LOSSES, *SCHEDULES, *METRICS}


def test_names_in_any_usual_spelling_are_one() -> None:
    config = Training.model_validate({"metric": "ROC-AUC", "loss": "Cross-Entropy", "optimiser": {"name": "AdamW"}})
    assert (config.metric, config.loss, config.optimiser.name) == ("roc_auc", "cross_entropy", "adamw")


def test_what_is_usual_for_each_task() -> None:
    """As the first registered; older runs depend on it."""
    usual = {
        task: (choose(LOSSES, None, task), choose(METRICS, None, task)) for task in ("regression", "classification", "multiclass")
    }
    assert usual == {
        "regression": ("mse", "rmse"),
        "classification": ("bce", "roc_auc"),
        "multiclass": ("cross_entropy", "accuracy"),
    }


def test_the_facts_of_metrics() -> None:
    more = {"accuracy", "roc_auc", "average_precision", "r2", "f1", "mcc", "macro_f1", "multiclass_mcc"}
    assert {name for name, metric in METRICS.items() if metric.more_is_better} == more
    assert {name for name, metric in METRICS.items() if metric.logarithmic} == {"log10_mse"}
    assert all(metric.tasks for _, metric in METRICS.items())


@pytest.mark.parametrize(
    ("former", "name", "now"),
    [
        ("config", "TrainingConfig", "settings.config"),
        ("devices", "make_fabric", "engine.execution"),
        ("formats", "onednn_pays", "engine.execution"),
        ("losses", "LOSSES", "settings.losses"),
        ("metrics", "METRICS", "settings.metrics"),
        ("optimisers", "OPTIMISERS", "settings.optim"),
        ("schedules", "SCHEDULES", "settings.optim"),
    ],
)
def test_modules_are_found_by_their_former_names(former: str, name: str, now: str) -> None:
    assert getattr(import_module(f"reign.train.{former}"), name) is getattr(import_module(f"reign.train.{now}"), name)
    assert getattr(reign.train, former) is import_module(f"reign.train.{now}")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("config", "TrainingConfig"),
        ("devices", "Execution"),
        ("formats", "number_format"),
        ("losses", "LOSSES"),
        ("metrics", "METRICS"),
        ("optimisers", "OPTIMISERS"),
        ("predictor", "Predictor"),
        ("schedules", "SCHEDULES"),
        ("vectors", "write_vectors"),
    ],
)
def test_modules_have_their_former_names(module: str, name: str) -> None:
    former = import_module(f"reign.train.{module}")
    assert former is getattr(reign.train, module)
    assert hasattr(former, name)
