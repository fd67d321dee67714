"""Rows by method: what is drawn or listed together, under which name and in which style."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from matplotlib.colors import to_hex, to_rgb

from experiments.methods import is_reference
from experiments.report.figure_text import as_drawn
from experiments.report.metrics import marked, method_label, one_trial_per_seed, short_setting
from experiments.report.plots import REFERENCE_STYLE, STYLES, Style
from experiments.results.naming import pluralize

_NAMES = {
    **{name: name.upper() for name in ("bippo", "ippo", "ppo", "fppo", "bippo-r")},
    **{"fedavg": "FedAvg", "poc": "PoC", "poca": "PoCA", "pocd": "PoC-d", "rep": "Rep", "oort": "Oort"},
    **{"cyclic": "Cyclic", "fedcbs": "Fed-CBS", "bandit": "Bandit", "greedyfed": "GreedyFed"},
    **{"hics": "HiCS-FL", "fedcor": "FedCor", "normfilter": "Norm filter"},
    **{"bippo-greedy": "BIPPO greedy", "ippo-odds": "IPPO odds"},
}


class Group(NamedTuple):
    """One method in one setting: its rows, one trial per seed, and how it is drawn."""

    method: str
    setting: str
    num_seeds: int
    rows: pd.DataFrame
    style: Style

    @property
    def label(self) -> str:
        """As it is written in a table."""
        return method_label(self.method, self.setting)

    @property
    def name(self) -> str:
        """As it is written in a figure."""
        return as_drawn(f"{method_name(self.method)} {short_setting(self.setting)}".strip())

    @property
    def seeds(self) -> str:
        """``n = 3 seeds``."""
        return f"n = {pluralize(self.num_seeds, 'seed')}"


def method_name(method: str) -> str:
    """Returns the printed name: FedAvg for ``fedavg``, BIPPO for ``bippo``; a user's method as it is.

    A method that is told what no real client would give away has a mark.
    """
    return marked(_NAMES.get(method, method), method)


def groups(rows: pd.DataFrame) -> list[Group]:
    """Returns one group per method and setting, in the order in which the rows name them."""
    found = {key: one_trial_per_seed(group) for key, group in rows.groupby(["method", "setting"], sort=False)}
    styles = _styles([method for method, _ in found])
    return [
        Group(method, setting, group["seed"].nunique(), group, style)
        for ((method, setting), group), style in zip(found.items(), styles, strict=True)
    ]


def _styles(names: Sequence[str]) -> list[Style]:
    """Each method's own; where every method stands twice, the second of it lighter, with dots and no hatch.

    A method that is not known takes one that no other has. Where methods stand more often, as in a search: the styles
    in turn.
    """
    repeats = [names[:place].count(name) for place, name in enumerate(names)]
    if any(repeats) and any(names.count(name) != 2 for name in names):
        return list(itertools.islice(itertools.cycle(STYLES.values()), len(names)))
    spare = itertools.cycle([STYLES[name] for name in reversed(STYLES) if name not in names] or [REFERENCE_STYLE])
    own = {
        name: REFERENCE_STYLE if is_reference(name) else STYLES.get(name) or next(spare)
        for name in dict.fromkeys(names)
    }
    return [_lighter(own[name]) if again else own[name] for name, again in zip(names, repeats, strict=True)]


def _lighter(style: Style) -> Style:
    """Half way to white."""
    red, green, blue = to_rgb(style.color)
    color = to_hex(((1 + red) / 2, (1 + green) / 2, (1 + blue) / 2))
    return style._replace(color=color, dashes=(1, 1.5), hatch="")
