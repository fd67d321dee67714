"""Draws runs beside each other: accuracy over the joules spent, and when each site trained and what it was good for.

python plot.py runs/bippo-s runs/random figure.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd


def draw(runs: list[Path], file: Path) -> None:
    """Writes the figure; the runs are folders with a ``history.jsonl``."""
    histories = {run.name: pd.read_json(run / "history.jsonl", lines=True) for run in runs}
    figure, (curve, *grids) = plt.subplots(1, 1 + len(runs), figsize=(5 + 4 * len(runs), 3.6), layout="constrained")
    for name, history in histories.items():
        rounds = history.groupby("round")
        spent_j = rounds.apply(lambda one: one.loc[one["selected"], "cost_j"].sum()).cumsum()
        curve.plot(1000 * spent_j, rounds["accuracy"].mean(), label=name)
    curve.set(xlabel="energy spent by the sites (mJ)", ylabel="mean accuracy", ylim=(0, 1))
    curve.legend(frameon=False)
    for axes, (name, history) in zip(grids, histories.items(), strict=True):
        table = history[history["round"] > 0].pivot(index="client", columns="round", values=["trained", "effect"])
        trained, effect = table["trained"].astype(float), table["effect"].astype(float)
        place = {
            "aspect": "auto",
            "interpolation": "nearest",
            "extent": (0.5, trained.shape[1] + 0.5, len(trained) - 0.5, -0.5),
        }
        axes.imshow(trained, cmap="Greys", vmin=0, vmax=2, **place)
        axes.set(title=f"{name}: who trained", xlabel="round", yticks=range(len(trained)), yticklabels=trained.index)
        if effect.notna().any(axis=None):
            limit = max(0.02, float(effect.abs().max(axis=None)))
            image = axes.imshow(effect, cmap="RdYlGn", vmin=-limit, vmax=limit, **place)
            figure.colorbar(image, ax=axes, label="effect on the mean accuracy")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    draw([Path(run) for run in sys.argv[1:-1]], Path(sys.argv[-1]))
