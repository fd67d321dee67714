"""What all figures share: a style per method, groups of rows, axes, and saving. Reads rows only."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import Formatter, MaxNLocator

from experiments.report.churn_moments import find_churn
from experiments.report.metrics import one_trial_per_seed
from experiments.results.naming import pluralize

GREY = "#555555"
GRID = "#dddddd"
_CHARACTERS_PER_INCH = 12


class Style(NamedTuple):
    """Colour (Okabe-Ito), dash pattern, marker and hatch: any one of them tells two methods apart, also in grey."""

    color: str
    dashes: tuple[float, ...]
    marker: str
    hatch: str = ""


STYLES = MappingProxyType(
    {
        "bippo": Style("#0072B2", (), "o", ""),
        "ippo": Style("#009E73", (6, 2, 1.5, 2), "^", "///"),
        "ppo": Style("#E69F00", (8, 2, 1.5, 2, 1.5, 2), "v", "..."),
        "fppo": Style("#CC79A7", (1.5, 1.5), "D", "xxx"),
        "fedavg": Style("#D55E00", (5, 2), "s", "\\\\\\"),
        "poc": Style("#56B4E9", (3, 1.5), "P", "oo"),
        "poca": Style("#000000", (10, 3), "X", "|||"),
        "pocd": Style("#7F7F7F", (4, 1, 1, 1, 1, 1), "<", "**"),
        "bippo-greedy": Style("#882255", (12, 2, 3, 2), ">", "+++"),
    }
)
"""A method keeps its style from figure to figure."""

_NAMES = {"fedavg": "FedAvg", "poc": "PoC", "poca": "PoCA", "pocd": "PoC-d", "bippo-greedy": "BIPPO greedy"}


class Group(NamedTuple):
    """One method in one setting: its rows, one trial per seed, and how it is drawn."""

    method: str
    setting: str
    num_seeds: int
    rows: pd.DataFrame
    style: Style

    @property
    def name(self) -> str:
        """As it is written in a figure."""
        return f"{method_name(self.method)} {self.setting}".strip()

    @property
    def seeds(self) -> str:
        return f"n = {pluralize(self.num_seeds, 'seed')}"


def method_name(method: str) -> str:
    """`fedavg` -> FedAvg, `bippo` -> BIPPO."""
    return _NAMES.get(method, method.upper())


def groups(rows: pd.DataFrame) -> list[Group]:
    """One group per method and setting, in the order in which the rows name them."""
    found = [one_trial_per_seed(group) for _, group in rows.groupby(["method", "setting"], sort=False)]
    names = [str(group["method"].iloc[0]) for group in found]
    return [
        Group(name, str(group["setting"].iloc[0]), int(group["seed"].nunique()), group, style)
        for name, group, style in zip(names, found, _styles(names), strict=True)
    ]


def _styles(names: Sequence[str]) -> list[Style]:
    """Each method's own; where every method stands twice, the second of it lighter, with dots and no hatch.

    Where methods stand more often, as in a search, or one is not known: the styles in turn.
    """
    repeats = [names[:place].count(name) for place, name in enumerate(names)]
    if set(names) <= set(STYLES) and (not any(repeats) or all(names.count(name) == 2 for name in names)):
        own = [STYLES[name] for name in names]
        return [
            style._replace(color=_lighter(style.color), dashes=(1, 1.5), hatch="") if again else style
            for style, again in zip(own, repeats, strict=True)
        ]
    return list(itertools.islice(itertools.cycle(STYLES.values()), len(names)))


def _lighter(color: str) -> str:
    """Half way to white."""
    red, green, blue = to_rgb(color)
    return to_hex(((1 + red) / 2, (1 + green) / 2, (1 + blue) / 2))


def trials(rows: pd.DataFrame) -> list[pd.DataFrame]:
    """The rows of each trial."""
    return [trial for _, trial in rows.groupby("trial", sort=False)]


def plain_axes(axes: Axes, grid: Literal["x", "y"] = "y") -> None:
    """No box, a light grid along one axis."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis=grid, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def round_axis(axes: Axes, label: str = "FL round") -> None:
    """Whole rounds only, also where there are three."""
    axes.set_xlabel(label)
    low, high = axes.get_xlim()
    if high - low < 1:  # a single round: no tick but a fraction would fit
        axes.set_xlim(low - 1, high + 1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))


def accuracy_axis(axes: Axes, label: str) -> None:
    """Accuracies are shares of 1 in rows and per cent in figures."""
    axes.set_ylabel(label)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=9, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentTicks())


class PercentTicks(Formatter):
    """Shares of 1 as per cent, all with as many decimals as the one that needs most: a rounded tick misleads."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{100 * x:.6f}".rstrip("0").rstrip(".")

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """The labels of one axis."""
        decimals = max((len(self(value).partition(".")[2]) for value in values), default=0)
        return [f"{100 * value:.{decimals}f}" for value in values]


def fitted(title: str, width_in: float) -> str:
    """A title in as many lines as a figure of that width needs."""
    return textwrap.fill(title, int(_CHARACTERS_PER_INCH * width_in))


def mark_churn(axes: Axes, rows: pd.DataFrame, above: bool = False) -> None:
    """A vertical line after each round in which clients joined or left, where that is the same in all trials.

    It says how many, inside or above the axes: +2 joined, −2 left.
    """
    churn = find_churn(rows)
    if churn is None or not churn.drawable:
        return
    for moment in churn.moments:
        axes.axvline(moment.round + 0.5, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1)
        axes.annotate(
            moment.signs,
            (moment.round + 0.5, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 1) if above else (2, -2),
            textcoords="offset points",
            ha="center" if above else "left",
            va="bottom" if above else "top",
            fontsize=8,
            color=GREY,
        )


def save_figure(figure: Figure, results_dir: Path, name: str = "accuracy") -> tuple[Path, Path]:
    """Write the figure as PNG and SVG (the same rows give the same files); returns the two paths."""
    png, svg = results_dir / f"{name}.png", results_dir / f"{name}.svg"
    with matplotlib.rc_context({"svg.hashsalt": "bippo", "svg.fonttype": "none"}):
        figure.savefig(png)
        figure.set_layout_engine("none")  # it was laid out for the PNG; doing so again takes as long as drawing
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
