"""What the policies' arithmetic costs, in the report and as a page of its own (``--macs DIR``, which needs no rows).

Policies by their closed forms, which the tests hold against the real networks; federated models as counted by
``torch.utils.flop_counter`` (two FLOPs are one MAC).
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch

from bippo_rllib.policies.macs import TRAINING_FACTOR, central_policy_macs, count_macs, policy_macs, training_macs
from envs.training.models import build_model, num_parameters
from experiments.report.figures.macs import CLIENTS, a_tenth, macs_figure
from experiments.report.macs import (
    RL_EPOCHS,
    RoundMacs,
    central_ratio,
    recorded_network,
    rl_training_macs,
    round_macs,
)
from experiments.report.numbers import MISSING, power_of_ten, whole
from experiments.report.plots import save_image
from experiments.report.results import Results
from experiments.report.tables import Record, markdown_table
from experiments.results.federation_record import ModelRecord
from experiments.results.files import check_writable
from experiments.results.selector_network import SelectorNetwork
from experiments.scenarios import SCENARIOS

_IMAGES = {"fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
_CLASSES = 10


def macs_section(results: Results, output: Path) -> list[str]:
    """Returns Markdown of the report's section; the figure is written to ``output``."""
    record, fl_round = results.federation_record, {}
    if record is not None:
        samples = sum(client.num_samples for client in record.clients) / len(record.clients)
        a_round = training_macs(record.model.macs_per_sample, samples, record.local_epochs)
        fl_round = {f"{record.model.name}, {samples:,.0f} samples": a_round}
    table = markdown_table([_record(macs) for macs in methods_macs(results)])
    return ["## Overhead of the selection", table, _SECTION, save_image(macs_figure(fl_round), output, "macs", "MACs")]


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


def _record(macs: RoundMacs) -> Record:
    return {
        "method": macs.method,
        "clients trained per round": f"{macs.participants:.2f}",
        "MACs, one pass": whole(macs.network),
        "RL training per round": whole(macs.rl_training),
        "FL training per round": MISSING if macs.fl_training is None else power_of_ten(macs.fl_training),
        "RL : FL": MISSING if macs.fl_per_rl is None else f"1 : {macs.fl_per_rl:,.0f}",
    }


_SECTION = f"""Counted as in `python -m experiments.report --macs DIR`: a pass of actor and critic, or of the actor
alone where a method learns without; training is samples × epochs × {TRAINING_FACTOR} × forward, RL with one sample per
participating client and {RL_EPOCHS} epochs unless set otherwise, so that 10 % participation saves 90 %."""


def write_macs_page(folder: Path) -> Path:
    """Writes macs.md, macs.png and macs.svg; returns the page."""
    check_writable(folder, "--macs")
    folder.mkdir(parents=True, exist_ok=True)
    models = fl_models()
    figure = macs_figure({f"{model.name} ({scenario})": a_round for scenario, (model, a_round) in models.items()})
    page = folder / "macs.md"
    parts = ["# MACs of client selection", save_image(figure, folder, "macs", "MACs against clients")]
    parts += [markdown_table(networks_table()), _CONVENTIONS]
    parts += ["## Beside FL training", markdown_table(_fl_table(models)), _PAPER]
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def networks_table() -> list[Record]:
    """Returns MACs of one pass and of a round of RL training, by number of clients."""
    own = policy_macs()
    return [
        {
            "clients": whole(n),
            "one pass: BIPPO, IPPO": whole(own),
            "one pass: PPO, FPPO": whole(central_policy_macs(n)),
            "ratio": f"{central_ratio(n):,.1f}×",
            "RL training, all train: BIPPO": whole(rl_training_macs(n, own)),
            "10 % train: BIPPO": whole(rl_training_macs(a_tenth(n), own)),
            "10 % train: central": whole(rl_training_macs(a_tenth(n), central_policy_macs(n))),
        }
        for n in CLIENTS
    ]


def fl_models() -> dict[str, tuple[ModelRecord, float]]:
    """Returns scenario -> federated model and MACs of one client's training in a round, for the paper's data sets."""
    models = {}
    for scenario, shape in _IMAGES.items():
        federation = SCENARIOS[scenario].federation
        model = build_model(federation["model"], shape, _CLASSES).eval()
        macs = count_macs(model, torch.zeros(1, *shape))
        a_round = training_macs(macs, federation["train_samples"], federation["local_epochs"])
        models[scenario] = ModelRecord(federation["model"], num_parameters(model), macs), a_round
    return models


def _fl_table(models: dict[str, tuple[ModelRecord, float]]) -> list[Record]:
    """RL training of one participation beside FL training of one client."""
    own, central = rl_training_macs(1, policy_macs()), rl_training_macs(1, central_policy_macs(20))
    return [
        {
            "scenario": scenario,
            "model": model.name,
            "parameters": whole(model.parameters),
            "MACs per sample": whole(model.macs_per_sample),
            "FL training, one client and round": power_of_ten(a_round),
            "of that, RL training: BIPPO": f"1 / {whole(a_round / own)}",
            "central, 20 clients": f"1 / {whole(a_round / central)}",
        }
        for scenario, (model, a_round) in models.items()
    ]


_CONVENTIONS = f"""How it is counted:

- One pass is one observation through actor and critic. BIPPO's own: 5·128 + 128·2 + 5·128 + 128 = {policy_macs():,},
  whatever the number of clients. Central, N clients: 128·(2·(1 + 4N) + N + 1), so {central_policy_macs(20):,} at 20,
  {central_policy_macs(48):,} at 48 and {central_policy_macs(1000):,} at 1,000.
- Training is samples × epochs × {TRAINING_FACTOR} × forward: a backward pass costs about two forward passes.
- RL trains one sample per participating client for {RL_EPOCHS} epochs, so it scales with the participants: 10 % of the
  clients, 10 % of the MACs.
- Valuing a step for GAE (critic only, once) and the optimiser's elementwise work are not counted."""

_PAPER = """The paper compares one pass of the networks with one image: 556,037,632 MACs for ResNet-18, which also
counts batch normalisation (614,400) and pooling (512), and 2,751,000 for its Fashion-MNIST CNN, which is not published;
ours needs 2,293,000."""
