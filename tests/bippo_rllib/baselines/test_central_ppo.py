"""The central baselines: their update against plain PyTorch, starting over on churn, saving and restoring."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from epoch_ratios import record_ratios
from torch import nn
from toy_envs import Bandit, Workers

from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.baselines.central.experience import CentralStep, batch_of, joint_state
from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.ppo_update import PPOSettings, update_policies
from bippo_rllib.policies.actor_critic import ParameterLayout, actor_logits, initial_parameters
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.setting_error import SettingError

CLIENTS, OBS_DIM, HIDDEN = 4, 5, 128
LAYOUT = ParameterLayout(1 + 4 * CLIENTS, HIDDEN, num_actions=CLIENTS)


class PlainCentralPPO:
    """The same network and update with ``nn.Linear``, autograd and ``torch.optim.Adam``, one sample at a time."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        inputs = 1 + 4 * CLIENTS
        self.actor = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, CLIENTS))
        self.critic = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
        self.net = nn.ModuleDict({"actor": self.actor, "critic": self.critic})
        self.net.load_state_dict(weights)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    @staticmethod
    def joint(observations: np.ndarray) -> torch.Tensor:
        return torch.tensor([observations[0, 0], *(value for client in observations for value in client[1:])])

    def update(self, rounds: list[CentralStep], cut: bool) -> None:
        with torch.no_grad():
            deltas, values, olds = [], [], []
            for step in rounds:
                now, following = self.joint(step.observations), self.joint(step.next_observations)
                values.append(self.critic(now)[0])
                deltas.append(step.reward + 0.9 * self.critic(following)[0] - values[-1])
                olds.append(self.actor(now).log_softmax(-1))
            advantages = [deltas[0] + (0.0 if cut else 0.9 * 0.8) * deltas[1], deltas[1]]
        for _ in range(8):
            losses = []
            for step, advantage, value, old in zip(rounds, advantages, values, olds, strict=True):
                log_probs = self.actor(self.joint(step.observations)).log_softmax(-1)
                error = (self.critic(self.joint(step.observations))[0] - (advantage + value)) ** 2
                for client in np.flatnonzero(step.participated):
                    ratio = (log_probs[client] - old[client]).exp()
                    losses.append(error - torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage))
            self.adam.zero_grad()
            torch.stack(losses).mean().backward()
            self.adam.step()


def random_round(rng: np.random.Generator, flat: torch.Tensor, **changes) -> CentralStep:
    observations, following = rng.random((2, CLIENTS, OBS_DIM), dtype=np.float32)
    observations[:, 0], following[:, 0] = observations[0, 0], following[0, 0]
    participated = np.zeros(CLIENTS, dtype=bool)
    participated[rng.permutation(CLIENTS)[: rng.integers(1, CLIENTS + 1)]] = True
    joint = joint_state(torch.from_numpy(observations), 1)
    log_probs = actor_logits(LAYOUT.views(flat), joint.view(1, 1, -1))[0, 0].log_softmax(-1).numpy()
    step = {
        "generation": 1,
        "observations": observations,
        "next_observations": following,
        "participated": participated,
        "log_probs": log_probs,
        "reward": float(rng.normal()),
        "episode_over": False,
    }
    return CentralStep(**{**step, **changes})


def test_the_update_equals_plain_pytorch_over_many_rounds(monkeypatch):
    rng, ratios = np.random.default_rng(0), record_ratios(monkeypatch)
    flat = initial_parameters(LAYOUT, 7, "central#1").unsqueeze(0)
    adam = StackedAdam(1, LAYOUT.size)
    plain = PlainCentralPPO({name: tensor[0].clone() for name, tensor in LAYOUT.views(flat).items()})
    for update in range(15):
        rounds = [random_round(rng, flat), random_round(rng, flat)]
        cut = update % 3 == 2
        update_policies(flat, LAYOUT, adam, batch_of(rounds, [cut, False], 1), PPOSettings())
        plain.update(rounds, cut)
        assert (ratios[8 * update] == 1.0).all() and (ratios[8 * update + 1] != 1.0).any()
    ours = {name: tensor[0] for name, tensor in LAYOUT.views(flat).items()}
    for name, theirs in plain.net.state_dict().items():
        torch.testing.assert_close(ours[name], theirs, rtol=0.0, atol=2e-6)


def test_every_participant_is_a_sample_with_its_rounds_advantage():
    # V(s) = V(s') = 0 (zero weights): deltas = rewards (1, -1), A = (1 - 0.72, -1) = (0.28, -1). Three samples of the
    # first round, one of the second: mean (3 * 0.28 - 1) / 4 = -0.04.
    rng, flat = np.random.default_rng(1), torch.zeros(1, LAYOUT.size)
    rounds = [
        random_round(rng, flat, reward=1.0, participated=np.array([True, True, True, False])),
        random_round(rng, flat, reward=-1.0, participated=np.array([False, False, False, True])),
    ]
    batch = batch_of(rounds, [False, False], 1)
    statistics = update_policies(flat, LAYOUT, StackedAdam(1, LAYOUT.size), batch, PPOSettings(num_epochs=1))
    assert float(statistics.advantage) == pytest.approx(-0.04, abs=1e-6)


def test_the_clipped_share_is_over_the_participants_of_all_rounds(monkeypatch):
    rng, ratios = np.random.default_rng(0), record_ratios(monkeypatch)
    flat = initial_parameters(LAYOUT, 7, "central#1").unsqueeze(0)
    batch = batch_of([random_round(rng, flat) for _ in range(8)], [False] * 8, 1)
    statistics = update_policies(flat, LAYOUT, StackedAdam(1, LAYOUT.size), batch, PPOSettings())
    clipped = [not 0.8 <= ratio <= 1.2 for ratio in ratios[-1][0].tolist()]
    assert statistics.clip_fraction.item() == pytest.approx(sum(clipped) / len(clipped))
    assert 0 < sum(clipped) < len(clipped)


def test_joint_state_takes_what_is_shared_once():
    observations = torch.tensor([[9.0, 1.0, 2.0], [9.0, 3.0, 4.0]])
    assert joint_state(observations, 1).tolist() == [9.0, 1.0, 2.0, 3.0, 4.0]
    assert joint_state(observations, 0).tolist() == [9.0, 1.0, 2.0, 9.0, 3.0, 4.0]


def build(num_workers: int = 4, **environment):
    config = CentralPPOConfig().environment(Workers, env_config={"num_workers": num_workers, **environment})
    return config.debugging(seed=7)


def built(config):
    return config.build_algo()


def central(algo):
    return algo.bank["central"]


def test_suggestions_are_a_softmax_over_live_clients_and_the_budget_holds(ray_session):
    algo = built(build())
    for _ in range(4):
        algo.train()
        asked = algo.parallel_env.last_actions
        assert 0 < sum((1 + int(a[-1]) % 2) * action for a, action in asked.items()) <= 3.0
    observations = np.random.default_rng(0).random((4, 3), dtype=np.float32)
    outputs = central(algo).act(observations)
    assert outputs["participation_suggestion"].sum() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(np.exp(outputs["action_logp"]), outputs["participation_suggestion"], rtol=1e-6)


def test_the_network_starts_over_when_a_client_leaves(ray_session):
    algo = built(build(rounds=50, leaves_at=3))
    learner = algo.learner
    algo.train()
    algo.train()
    old, generation = central(algo).flat.clone(), central(algo).generation
    assert int(learner.adam.all.steps) == 8
    algo.train()  # worker_00 leaves with this step
    assert central(algo).clients == ("worker_01", "worker_02", "worker_03")
    assert central(algo).generation == generation + 1
    assert central(algo).flat.shape[1] != old.shape[1]
    assert int(learner.adam.all.steps) == 0
    algo.train()
    assert int(learner.adam.all.steps) == 0, "the round of the old network is not in the batch of the new one"
    algo.train()
    assert int(learner.adam.all.steps) == 8


@pytest.mark.parametrize("stop_after", [3, 5])
def test_restored_in_the_middle_of_a_batch_it_goes_on_bit_for_bit(ray_session, tmp_path, stop_after):
    config = build(rounds=50, leaves_at=4)
    whole, first = built(config.copy(copy_frozen=False)), built(config.copy(copy_frozen=False))
    for _ in range(9):
        whole.train()
    for _ in range(stop_after):
        first.train()
    path = first.save_to_path(str(tmp_path))
    second = built(config.copy(copy_frozen=False))
    second.restore_from_path(path)
    for _ in range(9 - stop_after):
        second.train()
    assert central(second).clients == central(whole).clients
    assert torch.equal(central(second).flat, central(whole).flat)
    moments = [vars(algo.learner.adam.all) for algo in (second, whole)]
    assert all(torch.equal(moments[0][name], moments[1][name]) for name in moments[0])
    assert second.parallel_env.last_actions == whole.parallel_env.last_actions


def test_it_learns_which_client_pays(ray_session):
    algo = built(CentralPPOConfig().environment(Bandit).debugging(seed=7))
    for _ in range(300):
        algo.train()
    observations = np.array([[0.5, 1.0, 0.5, 0.5, 1.0]] * 8, dtype=np.float32)
    suggestions = central(algo).act(observations)["participation_suggestion"]
    assert suggestions[0] > 0.5 > suggestions[1:].sum()


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (lambda c: c.multi_agent(policies={"a"}), "policies", r"is \['a'\]; .* has the one policy 'central'"),
        *(
            (lambda c, bad=bad: c.training(shared_observations=bad), "shared_observations", "an integer of at least 0")
            for bad in (-1, True, 1.0, "1", None)
        ),
        (lambda c: c.env_runners(env_runner_cls=EpisodeEnvRunner), "env_runner_cls", "'EpisodeEnvRunner'; .*one pass"),
    ],
)
def test_what_it_cannot_do_is_refused(change, field, message):
    config = change(build())
    with pytest.raises(SettingError, match=message) as error:
        config.validate()
    assert error.value.field == field and str(error.value).startswith(f"{field} is ")


def test_policies_are_not_added_to_it(ray_session):
    algo = built(build())
    with pytest.raises(ValueError, match="central network has no policies to add"):
        algo.add_module("worker_99")
