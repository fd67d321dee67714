"""`python -m experiments.report --macs OUT`: what the policies' arithmetic costs, counted on the real modules.

Needs no rows and no data: networks are built, counted with `torch.utils.flop_counter` (two FLOPs are one MAC) and held
against the closed forms.
"""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import torch

from bippo_rllib.central.policy import CentralPolicy
from bippo_rllib.policies.client_policy import ClientPolicy
from bippo_rllib.policies.macs import central_policy_macs, count_macs, policy_macs
from envs.training.models import build_model, num_parameters
from experiments.report.figures.macs import CLIENTS, a_tenth, macs_figure, rl_training_macs
from experiments.report.mac_counts import (
    HIDDEN_SIZE,
    RL_EPOCHS,
    TRAINING_FACTOR,
    central_ratio,
    power_of_ten,
    training_macs,
)
from experiments.report.plots import save_figure
from experiments.report.tables import Record, markdown_table
from experiments.results.files import check_writable
from experiments.scenarios import SCENARIOS

OBSERVATION = 5
SHARED = 1
_IMAGES = {"fashion-mnist": (1, 28, 28), "cifar10": (3, 32, 32)}
_CLASSES = 10


def counted_client_macs() -> int:
    """A pass of one client's actor and critic, counted on `ClientPolicy`: 1,664."""
    module = ClientPolicy(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32),
        action_space=gym.spaces.Discrete(2),
        model_config={"hidden_size": HIDDEN_SIZE, "seed": 0, "policy_id": "client_000"},
    )
    return _actor_and_critic(module, OBSERVATION)


def counted_central_macs(num_clients: int) -> int:
    """A pass of the central actor and critic over so many clients, counted on `CentralPolicy`."""
    module = CentralPolicy(
        observation_space=gym.spaces.Box(-np.inf, np.inf, (OBSERVATION,), np.float32),
        action_space=gym.spaces.Discrete(2),
        model_config={"hidden_size": HIDDEN_SIZE, "seed": 0, "shared_observations": SHARED},
    )
    module.set_clients([f"client_{client:04d}" for client in range(num_clients)])
    return _actor_and_critic(module, module.layout.obs_dim)


def _actor_and_critic(module: ClientPolicy | CentralPolicy, inputs: int) -> int:
    example = torch.zeros(1, inputs)
    return count_macs(module.actor, example) + count_macs(module.critic, example)


def networks_table(clients: tuple[int, ...] = CLIENTS) -> list[Record]:
    """MACs of one pass and of a round of RL training with 10 % of the clients, by number of clients."""
    own = counted_client_macs()
    assert own == policy_macs()
    return [_networks_record(n, own, counted_central_macs(n)) for n in clients]


def _networks_record(num_clients: int, own: int, central: int) -> Record:
    assert central == central_policy_macs(num_clients)
    participants = a_tenth(num_clients)
    return {
        "clients": f"{num_clients:,}",
        "one pass: BIPPO, IPPO": f"{own:,}",
        "one pass: PPO, FPPO": f"{central:,}",
        "ratio": f"{central_ratio(num_clients):,.1f}×",
        "RL training, all train: BIPPO": f"{rl_training_macs(num_clients, own):,.0f}",
        "10 % train: BIPPO": f"{rl_training_macs(participants, own):,.0f}",
        "10 % train: central": f"{rl_training_macs(participants, central):,.0f}",
    }


def fl_models() -> dict[str, tuple[str, int, int, float]]:
    """Scenario -> (model, parameters, MACs per sample, MACs of one client's round), for the paper's two data sets."""
    return {name: _fl_model(name) for name in _IMAGES}


def _fl_model(scenario: str) -> tuple[str, int, int, float]:
    federation = SCENARIOS[scenario].federation
    model = build_model(federation["model"], _IMAGES[scenario], _CLASSES).eval()
    macs = count_macs(model, torch.zeros(1, *_IMAGES[scenario]))
    a_round = training_macs(macs, federation["train_samples"], federation["local_epochs"])
    return federation["model"], num_parameters(model), macs, a_round


def fl_table() -> list[Record]:
    """RL training of one participation beside FL training of one client, by federated model."""
    own = rl_training_macs(1, policy_macs())
    central = rl_training_macs(1, central_policy_macs(20))
    return [
        {
            "scenario": scenario,
            "model": model,
            "parameters": f"{parameters:,}",
            "MACs per sample": f"{macs:,}",
            "FL training, one client and round": power_of_ten(a_round),
            "of that, RL training: BIPPO": f"1 / {a_round / own:,.0f}",
            "central, 20 clients": f"1 / {a_round / central:,.0f}",
        }
        for scenario, (model, parameters, macs, a_round) in fl_models().items()
    ]


def write_macs_page(folder: Path) -> Path:
    """Write macs.md, macs.png and macs.svg; returns the page."""
    check_writable(folder, "--macs")
    folder.mkdir(parents=True, exist_ok=True)
    figure = macs_figure({f"{model} ({name})": a_round for name, (model, _, _, a_round) in fl_models().items()})
    png, _ = save_figure(figure, folder, "macs")
    page = folder / "macs.md"
    parts = ["# MACs of client selection", f"![MACs against clients]({png.name})", markdown_table(networks_table())]
    page.write_text(
        "\n\n".join([*parts, CONVENTIONS, "## Beside FL training", markdown_table(fl_table()), _PAPER]) + "\n"
    )
    return page


CONVENTIONS = f"""How it is counted:

- One pass is one observation through actor and critic. BIPPO's own: 5·128 + 128·2 + 5·128 + 128 = {policy_macs():,},
  whatever the number of clients. Central, N clients: 128·(2·(1 + 4N) + N + 1), so {central_policy_macs(20):,} at 20,
  {central_policy_macs(48):,} at 48 and {central_policy_macs(1000):,} at 1,000.
- Those are {central_ratio(20):.2f}, {central_ratio(48):.2f} and {central_ratio(1000):.2f} times BIPPO's; cut to whole
  numbers, 14×, 33× and 692×.
- Training is samples × epochs × {TRAINING_FACTOR} × forward: a backward pass costs about two forward passes.
- RL trains one sample per participating client for {RL_EPOCHS} epochs, so it scales with the participants: 10 % of the
  clients, 10 % of the MACs.
- Valuing a step for GAE (critic only, once) and the optimiser's elementwise work are not counted."""

_PAPER = """The paper compares one pass of the networks with one image: 556,037,632 MACs for ResNet-18, which also
counts batch normalisation (614,400) and pooling (512), and 2,751,000 for its Fashion-MNIST CNN, which is not published;
ours needs 2,293,000."""
