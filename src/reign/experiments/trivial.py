"""The trivial predictor: the mean of the training targets for every graph, without a model."""

from reign.train.runs.build import make_problem
from reign.train.runs.results import MemberResult, Spread, Summary
from reign.train.settings.config import Recipe
from reign.train.settings.losses import choose
from reign.train.settings.metrics import METRICS


def predict_mean(recipe: Recipe) -> Summary:
    """The metric of the mean of the training targets on each split, in the form of the results of one model.

    Its lowest training loss is the metric on the training graphs.
    """
    problem, _ = make_problem(recipe.data)
    if problem.task != "regression":
        raise ValueError(f"{problem.name} is a task of {problem.task}, but a mean of targets is for regression.")
    metric = choose(METRICS, recipe.train.metric, problem.task)
    constant = problem.y[problem.splits["train"]].nanmean(0)
    scores = {
        split: METRICS[metric](constant.expand(len(ids), -1), problem.y[ids]) for split, ids in problem.splits.items() if len(ids)
    }
    member = MemberResult(
        folder="-", seed=0, epochs=0, best_epoch=0, parameters=constant.numel(), seconds=0.0, best=scores, last=scores,
        best_train_loss=scores["train"],
    )  # fmt: skip
    spread = {split: Spread.over([value]) for split, value in {**scores, "best_train": scores["train"]}.items()}
    about = {"metric": metric, "report": recipe.train.report, "parameters": constant.numel(), "seconds": 0.0}
    return Summary.model_validate({**about, **spread, "members": [member]})
