"""MACs against clients: one pass of the networks, RL training of a round, and RL beside FL training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

from bippo_rllib.policies.macs import central_policy_macs, policy_macs
from experiments.report.mac_counts import RL_EPOCHS, central_ratio, power_of_ten, training_macs
from experiments.report.plots import GREY, STYLES, Style, plain_axes

CLIENTS = (20, 48, 100, 300, 1000)
PARTICIPATION = 0.1
_BIPPO, _CENTRAL = "BIPPO, IPPO: one client's networks", "PPO, FPPO: central networks"


def macs_figure(fl_client_round: Mapping[str, float], clients: Sequence[int] = CLIENTS) -> Figure:
    """Three panels, logarithmic.

    Args:
        fl_client_round: Name of a federated model -> MACs of one client's training in one round.
        clients: Numbers of clients on the axis.
    """
    figure = Figure(figsize=(13.5, 4.4), dpi=150, layout="constrained")
    forward, training, beside = figure.subplots(1, 3)
    _draw_forward(forward, clients)
    _draw_training(training, clients)
    _draw_beside(beside, fl_client_round)
    return figure


def a_tenth(num_clients: int) -> int:
    """Participants at 10 %, at least one."""
    return max(1, round(PARTICIPATION * num_clients))


def rl_training_macs(participants: float, network_macs: float) -> float:
    """MACs of a round of RL training with the default epochs."""
    return training_macs(network_macs, participants, RL_EPOCHS)


def _draw_forward(axes: Axes, clients: Sequence[int]) -> None:
    _line(axes, clients, [central_policy_macs(n) for n in clients], STYLES["fppo"], _CENTRAL)
    _line(axes, clients, [policy_macs()] * len(clients), STYLES["bippo"], _BIPPO)
    for n in (n for n in (20, 48, 1000) if n in clients):
        axes.annotate(
            f"{int(central_ratio(n))}×",
            (n, central_policy_macs(n)),
            xytext=(-3, 7),
            textcoords="offset points",
            ha="center",
            fontsize=9,
        )
    _decorate(axes, clients, "one pass of actor and critic", "MACs")


def _draw_training(axes: Axes, clients: Sequence[int]) -> None:
    own = policy_macs()
    tenth = [a_tenth(n) for n in clients]
    central = [rl_training_macs(k, central_policy_macs(n)) for n, k in zip(clients, tenth, strict=True)]
    series = (
        ("central, 10 % train", STYLES["fppo"], central),
        ("BIPPO, all clients train", STYLES["poca"], [rl_training_macs(n, own) for n in clients]),
        ("BIPPO, 10 % train: 90 % less", STYLES["bippo"], [rl_training_macs(k, own) for k in tenth]),
        ("BIPPO, 3 clients train", STYLES["ippo"], [rl_training_macs(3, own)] * len(clients)),
    )
    for label, style, values in series:
        _line(axes, clients, values, style, label)
    _decorate(axes, clients, "RL training of a round", "MACs per round")


def _draw_beside(axes: Axes, fl_client_round: Mapping[str, float]) -> None:
    """One participating client in one round."""
    bars = [
        ("BIPPO, any number", rl_training_macs(1, policy_macs()), STYLES["bippo"]),
        ("central, 20 clients", rl_training_macs(1, central_policy_macs(20)), STYLES["fppo"]),
        ("central, 1,000 clients", rl_training_macs(1, central_policy_macs(1000)), STYLES["fppo"]),
        *((f"FL: {name}", macs, STYLES["fedavg"]) for name, macs in fl_client_round.items()),
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


def _line(axes: Axes, clients: Sequence[int], values: Sequence[float], style: Style, label: str) -> None:
    axes.plot(
        clients,
        values,
        color=style.color,
        dashes=style.dashes,
        marker=style.marker,
        linewidth=1.8,
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.7,
        label=label,
    )


def _decorate(axes: Axes, clients: Sequence[int], title: str, label: str) -> None:
    axes.set(xscale="log", yscale="log", xlabel="clients", ylabel=label)
    axes.set_title(title, loc="left", fontsize=10)
    axes.xaxis.set_major_locator(FixedLocator(list(clients)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([f"{n:,}" for n in clients])
    axes.yaxis.set_major_locator(LogLocator(numticks=10))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.margins(x=0.1)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 12)  # room for the legend
    axes.legend(frameon=False, loc="upper left", fontsize=8.5, handlelength=4, labelcolor=GREY)
    plain_axes(axes)
