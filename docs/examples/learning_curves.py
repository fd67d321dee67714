"""Runs a study that learns and one that does not, and draws their TensorBoard curves, see docs/learning-curves.md."""

import argparse
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

ROOT = Path(__file__).parents[2]
#: Of these the second does not learn: its learning rate is three thousand times smaller.
STUDIES = {"learns": [], "does not learn": ["--set", "lr=1e-6"]}
TAGS = (
    "learning/reward",
    "learning/advantage_mean",
    "learning/clip_fraction_mean",
    "selection/score_std",
    "selection/trained/noisy",
    "accuracy/mean_accuracy_last_10",
)


def curves(folder):
    """Returns tag -> (rounds, values) of the one trial in a study's folder."""
    (event_file,) = Path(folder).rglob("events.out.tfevents.*")
    events = EventAccumulator(str(event_file)).Reload()
    found = {tag: events.Scalars(tag) for tag in TAGS if tag in events.Tags()["scalars"]}
    return {tag: ([e.step for e in points], [e.value for e in points]) for tag, points in found.items()}


def main(arguments=None):
    """Runs both studies, where their folders are not there yet, and writes a figure."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--results-dir", type=Path, default=ROOT / "results/learning-curves")
    parser.add_argument("--figure", type=Path, default=Path("learning-curves.png"))
    options = parser.parse_args(arguments)
    figure, all_axes = plt.subplots(2, 3, figsize=(11, 5.5), layout="constrained", sharex=True)
    study = [sys.executable, "-m", "experiments.tune_bippo", "--scenario", "digits-noisy", "--methods", "bippo-r"]
    study += ["--seeds", "11", "--rounds", str(options.rounds)]
    for name, settings in STUDIES.items():
        folder = options.results_dir / name.replace(" ", "-")
        if not folder.exists():
            subprocess.run([*study, *settings, "--results-dir", str(folder)], check=True)
        for axes, (tag, (rounds, values)) in zip(all_axes.flat, curves(folder).items(), strict=True):
            means = np.convolve(values, np.ones(10) / 10, "valid")  # as TensorBoard's smoothing, to see anything
            line = axes.plot(rounds[9:], means, label=name)[0]
            axes.plot(rounds, values, color=line.get_color(), alpha=0.2, linewidth=0.7)
            axes.set_title(tag, fontsize="medium")
    all_axes[0, 0].legend()
    for axes in all_axes[1]:
        axes.set_xlabel("round")
    figure.savefig(options.figure, dpi=150)


if __name__ == "__main__":
    main()
