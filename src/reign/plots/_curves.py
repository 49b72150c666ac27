"""Draw curves with bands, and compare predictions with their targets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reign.draw import BLUE, LIGHT, ORANGE, Axes, Picture, Theme, finish, new_figure, series, style_axes, style_legend

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve with a band around it.

    Args:
        label: its name.
        x, y: its points.
        low, high: the bounds of the band; None for no band.
        paper: whether it is a curve of the paper, which is drawn dashed and with an unfilled band.
        like: index of the curve whose colour it takes; its own colour if not given.
    """

    label: str
    x: Sequence[float | int]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    paper: bool = False
    like: int | None = None


@dataclass(frozen=True)
class Panel:
    """Axes with some curves."""

    title: str
    xlabel: str
    ylabel: str
    curves: tuple[Curve, ...]
    log: bool = False


def draw_curves(name: str, panels: Sequence[Panel], look: Theme = LIGHT) -> Picture:
    """Panels of curves side by side."""
    legend = max((len(panel.curves) for panel in panels), default=0) > 6
    figure = new_figure((5.2 + (1.5 if legend else 0)) * len(panels), 3.3, look)
    for p, panel in enumerate(panels):
        ax = figure.add_subplot(1, len(panels), p + 1)
        style_axes(ax, look, panel.title, panel.xlabel, panel.ylabel)
        for number, curve in enumerate(panel.curves):
            _curve(ax, curve, series(number if curve.like is None else curve.like))
        ax.locator_params(axis="x", integer=True)  # epochs, and numbers of graphs
        if panel.log and all(value > 0 for curve in panel.curves for value in curve.y):
            ax.set_yscale("log")
        if len(panel.curves) > 1:
            where = {"loc": "center left", "bbox_to_anchor": (1.02, 0.5)} if legend else {"loc": "best"}
            style_legend(ax.legend(fontsize=8, **where), look)
    return finish(figure, name, look)


def _curve(ax: Axes, curve: Curve, how: dict[str, str]) -> None:
    x, y = np.asarray(curve.x, dtype=float), np.asarray(curve.y, dtype=float)
    few = len(x) <= 40
    ax.plot(
        x, y, color=how["color"], linestyle="--" if curve.paper else "-", marker=how["marker"] if few else None, markersize=4,
        markerfacecolor="none" if curve.paper else how["color"], linewidth=1.3, label=curve.label,
    )  # fmt: skip
    if curve.low is not None and curve.high is not None:
        ax.fill_between(
            x, np.asarray(curve.low, dtype=float), np.asarray(curve.high, dtype=float), color=how["color"], alpha=0.18, linewidth=0
        )


def draw_parity(
    name: str, targets: Sequence[str], y: Floats, predicted: Floats, unsure: Floats | None, look: Theme = LIGHT
) -> Picture:
    """Draw predictions against targets, with one panel per target. Bars show the spread over models."""
    across = min(len(targets), 4)
    rows = -(-len(targets) // across)
    figure = new_figure(3.5 * across, 3.3 * rows, look)
    for t, target in enumerate(targets):
        ax = figure.add_subplot(rows, across, t + 1)
        style_axes(ax, look, shortened(target), "target", "prediction")
        known = ~np.isnan(y[:, t]) & ~np.isnan(predicted[:, t])
        a, b = y[known, t], predicted[known, t]
        if not len(a):
            continue
        low, high = float(min(a.min(), b.min())), float(max(a.max(), b.max()))
        ax.plot([low, high], [low, high], color=look.ink, linewidth=0.8, linestyle="--")
        if unsure is not None:
            ax.errorbar(a, b, yerr=unsure[known, t], fmt="none", ecolor=look.faint, elinewidth=0.7, zorder=1)
        some = len(a) > 3000
        ax.scatter(
            a,
            b,
            s=4 if some else 11,
            c=BLUE,
            alpha=0.35 if some else 0.7,
            linewidths=0,
            zorder=2,
            rasterized=some,
            gid=f"points-{t}",
        )
    return finish(figure, name, look)


def draw_classification(name: str, targets: Sequence[str], y: Floats, probability: Floats, look: Theme = LIGHT) -> Picture:
    """Draw ROC curves and calibration of 0/1 targets."""
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import roc_curve

    figure = new_figure(8.0, 3.5, look)
    roc, calibration = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    style_axes(roc, look, "ROC", "false positive rate", "true positive rate")
    style_axes(calibration, look, "calibration", "predicted probability", "share of ones")
    for ax in (roc, calibration):
        ax.plot([0, 1], [0, 1], color=look.ink, linewidth=0.8, linestyle="--")
    for t, target in enumerate(targets):
        known = ~np.isnan(y[:, t])
        truth, found = y[known, t], probability[known, t]
        how = series(t)
        if len(np.unique(truth)) == 2:
            false, true, _ = roc_curve(truth, found)
            roc.plot(false, true, color=how["color"], linestyle=how["linestyle"], linewidth=1.3, label=shortened(target))
        if len(truth):
            share, mean = calibration_curve(truth, found, n_bins=min(10, max(2, len(truth) // 5)), strategy="quantile")
            calibration.plot(
                mean, share, color=how["color"], marker=how["marker"], markersize=4, linewidth=1.2, label=shortened(target)
            )
    if 1 < len(targets) <= 12:
        style_legend(calibration.legend(fontsize=7, loc="best"), look)
    return finish(figure, name, look)


def draw_confusion(
    name: str, classes: Sequence[str], truth: NDArray[np.int64], best: NDArray[np.int64], look: Theme = LIGHT
) -> Picture:
    """Draw the confusion matrix: how often each class is predicted for each true class."""
    count = np.zeros((len(classes), len(classes)))
    np.add.at(count, (truth, best), 1)
    side = min(7.0, 2.2 + 0.45 * len(classes))
    figure = new_figure(side + 0.6, side, look)
    ax = figure.add_subplot()
    style_axes(ax, look, "classes", "predicted", "true")
    ax.grid(False)
    share = count / np.maximum(count.sum(1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    words = [shortened(word, 12) for word in classes]
    ax.set_xticks(range(len(words)), words, rotation=60, ha="right")
    ax.set_yticks(range(len(words)), words)
    if len(classes) <= 15:
        for (a, b), number in np.ndenumerate(count):
            ax.text(
                b, a, f"{int(number)}", ha="center", va="center", fontsize=8, color="#ffffff" if share[a, b] > 0.5 else "#1c1c1c"
            )
    return finish(figure, name, look)


def draw_uncertainty(name: str, error: Floats, unsure: Floats, look: Theme = LIGHT) -> Picture:
    """Draw the mean error by uncertainty, for ten groups of rows ordered by their spread over models."""
    order = np.argsort(unsure)
    groups = [part for part in np.array_split(order, min(10, len(order))) if len(part)]
    figure = new_figure(4.6, 3.3, look)
    ax = figure.add_subplot()
    style_axes(ax, look, "error by uncertainty", "spread over models (mean of a group)", "absolute error (mean of a group)")
    ax.plot(
        [unsure[g].mean() for g in groups], [error[g].mean() for g in groups], color=ORANGE, marker="o", markersize=4, linewidth=1.2
    )
    return finish(figure, name, look)


def shortened(text: str, size: int = 28) -> str:
    """The beginning of a long name. Characters that start a formula in matplotlib are escaped."""
    text = text.replace("$", r"\$")
    return text if len(text) <= size else f"{text[: size - 1]}…"
