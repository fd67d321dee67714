"""MACs against clients: one pass of the networks, RL training of a round, and RL beside FL training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from bippo_rllib.policies.macs import central_policy_macs, policy_macs
from experiments.report.figure_text import as_drawn
from experiments.report.macs import central_ratio, rl_training_macs
from experiments.report.numbers import power_of_ten
from experiments.report.plots import GREY, STYLES, clients_axis, curve, plain_axes

CLIENTS = (20, 48, 100, 300, 1000)
_PARTICIPATION = 0.1
_WITH_RATIO = (20, 48, 1000)


def macs_figure(fl_client_round: Mapping[str, float]) -> Figure:
    """Returns three logarithmic panels; ``fl_client_round`` has, by federated model, the MACs of a client's round."""
    figure = Figure(figsize=(13.5, 4.4), dpi=150, layout="constrained")
    forward, training, beside = figure.subplots(1, 3)
    _draw_forward(forward)
    _draw_training(training)
    _draw_beside(beside, fl_client_round)
    return figure


def a_tenth(num_clients: int) -> int:
    """Returns the participants at 10 %, at least one."""
    return max(1, round(_PARTICIPATION * num_clients))


def _draw_forward(axes: Axes) -> None:
    central = [central_policy_macs(n) for n in CLIENTS]
    curve(axes, CLIENTS, central, STYLES["fppo"], "PPO, FPPO: central networks")
    curve(axes, CLIENTS, [policy_macs()] * len(CLIENTS), STYLES["bippo"], "BIPPO, IPPO: one client's networks")
    for n in _WITH_RATIO:
        point, name = (n, central_policy_macs(n)), f"{int(central_ratio(n))}×"
        axes.annotate(name, point, xytext=(-3, 7), textcoords="offset points", ha="center", fontsize=9)
    _decorate(axes, "one pass of actor and critic", "MACs")


def _draw_training(axes: Axes) -> None:
    own, tenth = policy_macs(), [a_tenth(n) for n in CLIENTS]
    central = [rl_training_macs(k, central_policy_macs(n)) for n, k in zip(CLIENTS, tenth, strict=True)]
    series: Sequence[tuple[str, str, Sequence[float]]] = (
        ("central, 10 % train", "fppo", central),
        ("BIPPO, all clients train", "poca", [rl_training_macs(n, own) for n in CLIENTS]),
        ("BIPPO, 10 % train: 90 % less", "bippo", [rl_training_macs(k, own) for k in tenth]),
        ("BIPPO, 3 clients train", "ippo", [rl_training_macs(3, own)] * len(CLIENTS)),
    )
    for label, style, values in series:
        curve(axes, CLIENTS, values, STYLES[style], label)
    _decorate(axes, "RL training of a round", "MACs per round")


def _draw_beside(axes: Axes, fl_client_round: Mapping[str, float]) -> None:
    """One participating client in one round."""
    bars = [
        ("BIPPO, any number", rl_training_macs(1, policy_macs()), STYLES["bippo"]),
        ("central, 20 clients", rl_training_macs(1, central_policy_macs(20)), STYLES["fppo"]),
        ("central, 1,000 clients", rl_training_macs(1, central_policy_macs(1000)), STYLES["fppo"]),
        *((f"FL: {as_drawn(name)}", macs, STYLES["fedavg"]) for name, macs in fl_client_round.items()),
    ]
    for place, (_, macs, style) in enumerate(bars):
        axes.barh(place, macs, color=style.color, alpha=0.75, hatch=style.hatch, edgecolor="white", height=0.62)
        axes.text(macs * 1.5, place, power_of_ten(macs), va="center", fontsize=8.5)
    axes.set(xscale="log", xlabel="MACs", xlim=(1e3, 60 * max(macs for _, macs, _ in bars)))
    axes.set_yticks(range(len(bars)), [label for label, _, _ in bars], fontsize=9)
    axes.invert_yaxis()
    axes.xaxis.set_major_locator(LogLocator(numticks=7))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_title("training of one participating client, one round", loc="left", fontsize=10)
    plain_axes(axes, grid="x")


def _decorate(axes: Axes, title: str, label: str) -> None:
    clients_axis(axes, CLIENTS)
    axes.set(yscale="log", ylabel=label)
    axes.set_title(title, loc="left", fontsize=10)
    axes.yaxis.set_major_locator(LogLocator(numticks=10))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.1)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 12)  # room for the legend
    axes.legend(frameon=False, loc="upper left", fontsize=8.5, handlelength=4, labelcolor=GREY)
    plain_axes(axes)
