"""Multiply-accumulates (MACs) of a round: one pass of the policies, their training, and the federated training.

A training sample costs ``TRAINING_FACTOR`` = 3 forward passes: one forward, and a backward pass of about two. A policy
sees one sample per participation and trains on it for each of its epochs; so does the central network, as in the paper.
The passes that value a buffered step once, for GAE, are not counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from bippo_rllib.policies.macs import TRAINING_FACTOR, central_policy_macs, policy_macs, training_macs
from experiments.report.merged import Results
from experiments.report.tables import MISSING, Record, markdown_table, power_of_ten
from experiments.results.federation_record import FederationRecord
from experiments.results.run_info import RunInfo, SelectorNetwork
from experiments.results.setting_text import describe, from_text

RL_EPOCHS = 8
PASS, RL, FL = "MACs, one pass", "RL training per round", "FL training per round"
_FORMATS: dict[str, Callable[[Any], str]] = {
    "method": str,
    "clients trained per round": "{:.2f}".format,
    PASS: "{:,.0f}".format,
    RL: "{:,.0f}".format,
    FL: power_of_ten,
    "RL : FL": "1 : {:,.0f}".format,
}


def macs_section(results: Results) -> list[str]:
    """Returns Markdown of the report's section."""
    table = macs_table(results)
    texts = {
        name: [MISSING if pd.isna(value) else text(value) for value in table[name]] for name, text in _FORMATS.items()
    }
    return [
        "## Overhead of the selection",
        markdown_table(pd.DataFrame(texts).to_dict("records")),
        "A pass is one observation through actor and critic, or the actor alone where a method learns without one. "
        f"Training is samples × epochs × {TRAINING_FACTOR} × forward, RL with one sample per participating client.",
    ]


def macs_table(results: Results) -> pd.DataFrame:
    """Returns the MACs of a mean round, a row for each method and, where they differ, networks of its settings.

    NaN where they are not known, and where a method trains no policy.
    """
    parts: dict[tuple[str, SelectorNetwork | None], list[pd.DataFrame]] = {}
    for study in results.studies:
        for (method, setting), rows in study.rows.groupby(["method", "setting"]):
            network = _recorded_network(study.info, str(method), str(setting))
            parts.setdefault((str(method), network), []).append(rows)
    order = sorted(parts, key=lambda key: (results.methods.index(key[0]), key[1] is not None, key[1]))
    lines = [
        {"method": key[0], **round_macs(pd.concat(parts[key]), results.federation_record, key[1])} for key in order
    ]
    table = pd.DataFrame(lines).astype({PASS: float, RL: float, FL: float})
    return table.assign(**{"RL : FL": table[FL] / table[RL]})


def _recorded_network(info: RunInfo, method: str, setting: str) -> SelectorNetwork | None:
    """Returns the network of a method in one setting of a search; None if it trains nothing, or is not known."""
    settings = [describe(draw) for draw in from_text(info.draws)] or [""]
    known = method in info.networks and setting in settings
    return info.networks[method][settings.index(setting)] if known else None


def round_macs(rows: pd.DataFrame, record: FederationRecord | None, network: SelectorNetwork | None) -> dict[str, Any]:
    """Returns the MACs of a mean round of a method with this network, from who trained in its rows."""
    participants = float(rows["num_trained"].mean())
    macs = rl_training = fl_training = None
    if network is not None:
        # Under churn the central networks are rebuilt for the live clients, so their mean size counts.
        num_clients = round(float(rows["num_clients"].mean()))
        size, critic = network.hidden_size, network.critic
        central = central_policy_macs(num_clients, size, critic)
        macs = central if network.central else policy_macs(hidden_size=size, critic=critic)
        rl_training = training_macs(macs, participants, network.epochs)
    if record is not None:
        samples = pd.Series([client.num_samples for client in record.clients])
        per_round = samples.reindex(rows["trained"].explode().dropna().astype(int)).sum() / len(rows)
        fl_training = training_macs(record.model.macs_per_sample, per_round, record.local_epochs)
    return {"clients trained per round": participants, PASS: macs, RL: rl_training, FL: fl_training}


def networks_table() -> list[Record]:
    """Returns MACs of one pass and of a round of RL training, by number of clients."""
    own = policy_macs()
    return [
        {
            "clients": f"{clients:,}",
            "one pass: BIPPO, IPPO": f"{own:,}",
            "one pass: PPO, FPPO": f"{central_policy_macs(clients):,}",
            "ratio": f"{central_policy_macs(clients) / own:,.1f}×",
            "RL training, all train: BIPPO": f"{training_macs(own, clients, RL_EPOCHS):,}",
            "10 % train: BIPPO": f"{training_macs(own, round(0.1 * clients), RL_EPOCHS):,}",
            "10 % train: central": f"{training_macs(central_policy_macs(clients), round(0.1 * clients), RL_EPOCHS):,}",
        }
        for clients in (20, 48, 100, 300, 1000)
    ]
