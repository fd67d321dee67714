"""Draws how far methods are ahead of another one, random selection by default, on several federations.

    python compare_federations.py gains.png "right labels=results/A" "wrong labels=results/B,results/C"

draws a column for each federation, from the rows of its studies, and a row for each method that was run on all of them,
the best on average first.
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from experiments.methods import privileged_information
from experiments.report.merged import read_results


def mean_accuracies(folders: list[Path]) -> pd.Series:
    """Returns the mean accuracy of each method over rounds and seeds."""
    rows = read_results(folders).rows
    return rows.groupby(["method", "seed"])["mean_accuracy"].mean().groupby("method").mean()


def gains(federations: dict[str, list[Path]], baseline: str) -> pd.DataFrame:
    """Returns the difference to the baseline's mean accuracy, for each method that was run on every federation."""
    accuracy = pd.DataFrame({name: mean_accuracies(folders) for name, folders in federations.items()}).dropna()
    if baseline not in accuracy.index:
        raise ValueError(f"{baseline} was not run on every federation; {', '.join(accuracy.index) or 'no method'} was")
    difference = accuracy - accuracy.loc[baseline]
    return difference.loc[difference.mean(axis=1).sort_values(ascending=False).index]


def draw(table: pd.DataFrame, file: Path, baseline: str) -> None:
    """Writes the figure; colours end at 0.15, numbers do not."""
    size = (2.4 + 0.72 * table.shape[1], 1.6 + 0.28 * table.shape[0])
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    axes.imshow(table, cmap="RdBu", vmin=-0.15, vmax=0.15, aspect="auto")
    for (row, column), gain in np.ndenumerate(table.to_numpy()):
        color = "white" if abs(gain) > 0.1 else "black"
        axes.text(column, row, f"{gain:+.3f}", ha="center", va="center", size=8, color=color)
    axes.set_xticks(range(table.shape[1]), table.columns, rotation=35, ha="right")
    marked = [f"{method} (privileged)" if privileged_information(method) else method for method in table.index]
    axes.set_yticks(range(table.shape[0]), marked)
    axes.set_title(f"mean accuracy less that of {baseline}")
    figure.savefig(file, dpi=150)


def main() -> None:
    """Reads the command line and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figure", type=Path, help="file to write, .png, .svg or .pdf")
    parser.add_argument("federations", nargs="+", metavar="NAME=STUDY[,STUDY ...]", help="results folders")
    parser.add_argument("--baseline", default="fedavg", help="method that the others are compared with")
    options = parser.parse_args()
    federations = {}
    for text in options.federations:
        name, _, studies = text.rpartition("=")
        federations[name or studies] = [Path(study) for study in studies.split(",")]
    try:
        draw(gains(federations, options.baseline), options.figure, options.baseline)
    except (OSError, ValueError) as problem:
        parser.error(str(problem))


if __name__ == "__main__":
    main()
