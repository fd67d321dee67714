"""Multiply-accumulates (MACs) of a round: one pass of the policies, their training, and the federated training.

A training sample costs ``TRAINING_FACTOR`` = 3 forward passes: one forward, and a backward pass of about two. A policy
sees one sample per participation and trains on it for each of its epochs; so does the central network, as in the paper.
The passes that value a buffered step once, for GAE, are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from bippo_rllib.policies.macs import TRAINING_FACTOR, central_policy_macs, policy_macs, training_macs
from experiments.report.numbers import MISSING, power_of_ten, whole
from experiments.report.results import Results
from experiments.report.tables import Record, markdown_table
from experiments.results.federation_record import FederationRecord
from experiments.results.run_info import RunInfo
from experiments.results.selector_network import SelectorNetwork
from experiments.results.setting_text import describe, from_text

RL_EPOCHS = 8


@dataclass(frozen=True)
class RoundMacs:
    """MACs of a mean round of one method."""

    method: str
    participants: float  #: Clients that train.
    #: One pass of the actor and critic that a participation trains; None if the method trains none or is not known.
    network: int | None
    rl_training: float | None  #: Training the policies; None as above.
    fl_training: float | None  #: Training the federated model; None where the federation is not known.

    @property
    def fl_per_rl(self) -> float | None:
        """How often the RL training fits into the FL training of a round."""
        return self.fl_training / self.rl_training if self.fl_training and self.rl_training else None


def macs_section(results: Results) -> list[str]:
    """Returns Markdown of the report's section."""
    records = [
        {
            "method": macs.method,
            "clients trained per round": f"{macs.participants:.2f}",
            "MACs, one pass": whole(macs.network),
            "RL training per round": whole(macs.rl_training),
            "FL training per round": MISSING if macs.fl_training is None else power_of_ten(macs.fl_training),
            "RL : FL": MISSING if macs.fl_per_rl is None else f"1 : {macs.fl_per_rl:,.0f}",
        }
        for macs in methods_macs(results)
    ]
    return [
        "## Overhead of the selection",
        markdown_table(records),
        "A pass is one observation through actor and critic, or the actor alone where a method learns without one. "
        f"Training is samples × epochs × {TRAINING_FACTOR} × forward, RL with one sample per participating client.",
    ]


def methods_macs(results: Results) -> list[RoundMacs]:
    """Returns one entry per method and, where they differ, networks of its settings, fixed or searched."""
    parts: dict[tuple[str, SelectorNetwork | None], list[pd.DataFrame]] = {}
    for source in results.sources:
        for (method, setting), rows in source.rows.groupby(["method", "setting"]):
            network = recorded_network(source.info, str(method), str(setting))
            parts.setdefault((str(method), network), []).append(rows)
    order = sorted(parts, key=lambda key: (results.methods.index(key[0]), key[1] is not None, key[1]))
    record = results.federation_record
    return [round_macs(method, pd.concat(parts[method, network]), record, network) for method, network in order]


def recorded_network(info: RunInfo | None, method: str, setting: str) -> SelectorNetwork | None:
    """Returns what run.json says of a method in one setting of a search; None if it trains nothing, or is not known."""
    settings = [describe(draw) for draw in from_text(info.draws)] or [""] if info is not None else []
    if info is None or method not in info.networks or setting not in settings:
        return None
    return info.networks[method][settings.index(setting)]


def round_macs(
    method: str, rows: pd.DataFrame, record: FederationRecord | None, network: SelectorNetwork | None
) -> RoundMacs:
    """Returns the MACs of one method with its network, from who trained in its rows."""
    participants, macs = float(rows["num_trained"].mean()), None
    if network is not None and network.central:
        # Under churn the central networks are rebuilt for the live clients, so their mean size counts.
        num_clients = round(float(rows["num_clients"].mean()))
        macs = central_policy_macs(num_clients, network.hidden_size, network.critic)
    elif network is not None:
        macs = policy_macs(hidden_size=network.hidden_size, critic=network.critic)
    rl_training = None if macs is None or network is None else training_macs(macs, participants, network.epochs)
    return RoundMacs(method, participants, macs, rl_training, None if record is None else _fl_training(rows, record))


def _fl_training(rows: pd.DataFrame, record: FederationRecord) -> float:
    samples = pd.Series([client.num_samples for client in record.clients])
    per_round = samples.reindex(rows["trained"].explode().dropna().astype(int)).sum() / len(rows)
    return training_macs(record.model.macs_per_sample, per_round, record.local_epochs)


def networks_table() -> list[Record]:
    """Returns MACs of one pass and of a round of RL training, by number of clients."""
    return [_networks(n, policy_macs(), central_policy_macs(n), round(0.1 * n)) for n in (20, 48, 100, 300, 1000)]


def _networks(num_clients: int, own: int, central: int, tenth: int) -> Record:
    return {
        "clients": whole(num_clients),
        "one pass: BIPPO, IPPO": whole(own),
        "one pass: PPO, FPPO": whole(central),
        "ratio": f"{central / own:,.1f}×",
        "RL training, all train: BIPPO": whole(training_macs(own, num_clients, RL_EPOCHS)),
        "10 % train: BIPPO": whole(training_macs(own, tenth, RL_EPOCHS)),
        "10 % train: central": whole(training_macs(central, tenth, RL_EPOCHS)),
    }
