"""The batched update against a plain PPO per client, and what it must not touch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from epoch_ratios import record_ratios
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from bippo_rllib.learning.adam import StackedAdam
from bippo_rllib.learning.participation_buffer import ParticipationBuffer
from bippo_rllib.learning.ppo_update import PPOSettings, update_policies
from bippo_rllib.policies.actor_critic import (
    ParameterLayout,
    actor_logits,
    critic_values,
    initial_parameters,
    log_prob_participate,
)

OBS_DIM, HIDDEN = 5, 128


LAYOUT = ParameterLayout(OBS_DIM, HIDDEN)


def new_stack(num_policies: int, layout: ParameterLayout = LAYOUT) -> torch.Tensor:
    return torch.stack([initial_parameters(layout, 7, f"client_{n:03d}") for n in range(num_policies)])


def new_adam(stack: torch.Tensor) -> StackedAdam:
    return StackedAdam(*stack.shape)


def acted_log_probs(stack: torch.Tensor, observations: np.ndarray, layout: ParameterLayout = LAYOUT) -> np.ndarray:
    """What the bank stores when the policies act: one observation per policy."""
    logits = actor_logits(layout.views(stack), torch.from_numpy(observations).unsqueeze(1))
    return log_prob_participate(logits).squeeze(1).numpy()


class PlainPPO:
    """One client on its own, with autograd and ``torch.optim.Adam``."""

    def __init__(self, weights: dict[str, torch.Tensor], use_critic: bool = True) -> None:
        self.use_critic = use_critic
        self.actor = nn.Sequential(nn.Linear(OBS_DIM, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 2))
        self.critic = nn.Sequential(nn.Linear(OBS_DIM, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
        self.net = nn.ModuleDict({"actor": self.actor, "critic": self.critic})
        self.net.load_state_dict(weights)
        self.adam = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def update(self, steps: list[tuple]) -> None:
        obs, following = (torch.tensor(np.stack([s[i] for s in steps])) for i in (0, 1))
        rewards = torch.tensor([s[2] for s in steps])
        with torch.no_grad():
            old = self.actor(obs).log_softmax(-1)[:, 1]
            v, v_next = self.critic(obs).squeeze(-1), self.critic(following).squeeze(-1)
            delta = rewards + 0.9 * v_next - v
            if not self.use_critic:
                delta = rewards
            advantage = torch.stack([delta[0] + 0.72 * delta[1], delta[1]])
            returns = advantage + v
        for _ in range(8):
            ratio = (self.actor(obs).log_softmax(-1)[:, 1] - old).exp()
            surrogate = torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            loss = -surrogate.mean()
            if self.use_critic:
                loss = loss + (self.critic(obs).squeeze(-1) - returns).pow(2).mean()
            self.adam.zero_grad()
            loss.backward()
            self.adam.step()


@pytest.mark.parametrize("use_critic", [True, False])
def test_the_batched_update_equals_plain_ppo_per_client(use_critic):
    num_policies, num_rounds = 6, 30
    rng = np.random.default_rng(0)
    stack = new_stack(num_policies)
    adam, buffer = new_adam(stack), ParticipationBuffer(num_policies, 2, OBS_DIM)
    starts = [{name: t[n].clone() for name, t in LAYOUT.views(stack).items()} for n in range(num_policies)]
    plain = [PlainPPO(weights, use_critic) for weights in starts]
    waiting: list[list] = [[] for _ in range(num_policies)]
    updates = np.zeros(num_policies, dtype=int)
    for _ in range(num_rounds):
        observations = rng.random((num_policies, OBS_DIM), dtype=np.float32)
        following = rng.random((num_policies, OBS_DIM), dtype=np.float32)
        reward = np.float32(rng.normal())
        # Unequal participation: policy n takes part with probability (n + 1) / 7.
        slots = np.flatnonzero(rng.random(num_policies) < (np.arange(num_policies) + 1) / 7)
        log_probs = acted_log_probs(stack, observations)[slots]
        buffer.add(slots, observations[slots], following[slots], log_probs, np.full(len(slots), reward))
        batch = buffer.take_full()
        if batch is not None:
            update_policies(stack, LAYOUT, adam, batch, PPOSettings(use_critic=use_critic))
        for n in slots:
            waiting[n].append((observations[n], following[n], reward))
            if len(waiting[n]) == 2:
                plain[n].update(waiting[n])
                waiting[n] = []
                updates[n] += 1
    assert updates.min() >= 1 and updates.max() >= 10
    for n in range(num_policies):
        for name, value in plain[n].net.state_dict().items():
            torch.testing.assert_close(LAYOUT.views(stack)[name][n], value, rtol=0, atol=1e-6)
            changes = use_critic or name.startswith("actor")
            assert torch.equal(LAYOUT.views(stack)[name][n], starts[n][name]) != changes


def full_batch(stack: torch.Tensor, slots: list[int], seed: int = 0, layout: ParameterLayout = LAYOUT):
    rng, num_policies = np.random.default_rng(seed), len(stack)
    buffer = ParticipationBuffer(num_policies, 2, OBS_DIM)
    for _ in range(2):
        observations = rng.random((num_policies, OBS_DIM), dtype=np.float32)
        log_probs = acted_log_probs(stack, observations, layout)[slots]
        following = rng.random((len(slots), OBS_DIM), dtype=np.float32)
        rewards = rng.normal(size=len(slots)).astype(np.float32)
        buffer.add(np.array(slots), observations[slots], following, log_probs, rewards)
    return buffer.take_full()


def test_non_participants_keep_every_bit():
    stack = new_stack(10)
    adam = new_adam(stack)
    update_policies(stack, LAYOUT, adam, full_batch(stack, list(range(10))), PPOSettings())  # moments of all are set
    before = {"weights": stack.clone(), **{name: t.clone() for name, t in vars(adam.all).items()}}
    update_policies(stack, LAYOUT, adam, full_batch(stack, [1, 4, 8], seed=1), PPOSettings())
    after = {"weights": stack, **vars(adam.all)}
    others = [n for n in range(10) if n not in (1, 4, 8)]
    for name, tensor in after.items():
        assert torch.equal(tensor[others], before[name][others])
        assert all(not torch.equal(tensor[n], before[name][n]) for n in (1, 4, 8))
    assert adam.all.steps.tolist() == [16 if n in (1, 4, 8) else 8 for n in range(10)]


@pytest.mark.parametrize("num_policies", [1, 20, 257])
def test_the_ratio_is_exactly_one_in_the_first_epoch(num_policies, monkeypatch):
    ratios, stack = record_ratios(monkeypatch), new_stack(num_policies)
    slots = list(range(0, num_policies, 3))
    update_policies(stack, LAYOUT, new_adam(stack), full_batch(stack, slots), PPOSettings())
    assert ratios[0].tolist() == [[1.0, 1.0]] * len(slots)
    assert len(ratios) == 8 and (ratios[1] != 1.0).all()


def test_the_clipped_share_is_that_of_the_last_epoch(monkeypatch):
    ratios, stack = record_ratios(monkeypatch), new_stack(40)
    settings = PPOSettings(lr=0.0015)  # some policies get out of [0.8, 1.2], some do not
    statistics = update_policies(stack, LAYOUT, new_adam(stack), full_batch(stack, list(range(40))), settings)
    shares = [sum(not 0.8 <= ratio <= 1.2 for ratio in row) / 2 for row in ratios[-1].tolist()]
    assert statistics.clip_fraction.tolist() == shares and set(shares) == {0.0, 0.5, 1.0}


def test_a_policys_output_does_not_depend_on_its_neighbours():
    stack = new_stack(50)
    observations = torch.rand(50, 3, OBS_DIM, generator=torch.Generator().manual_seed(0))
    every = [f(LAYOUT.views(stack), observations) for f in (actor_logits, critic_values)]
    for slots in ([0], [7, 3], list(range(10, 50))):
        for batch in (1, 2, 3):
            part, some = LAYOUT.views(stack[slots]), observations[slots, :batch]
            assert torch.equal(actor_logits(part, some), every[0][slots, :batch])
            assert torch.equal(critic_values(part, some), every[1][slots, :batch])


class CallCounter(TorchDispatchMode):
    """Counts the operators that reach the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls += 1
        return func(*args, **(kwargs or {}))


def calls_of_an_update(num_policies: int) -> int:
    layout = ParameterLayout(OBS_DIM, 16)
    stack = new_stack(num_policies, layout)
    adam, batch = new_adam(stack), full_batch(stack, list(range(num_policies)), layout=layout)
    with CallCounter() as counter:
        update_policies(stack, layout, adam, batch, PPOSettings())
    return counter.calls


def test_no_loop_over_policies_in_the_update():
    assert calls_of_an_update(20) == calls_of_an_update(1000) > 100


@pytest.mark.parametrize(
    "settings", [PPOSettings(num_epochs=1, grad_clip=0.1), PPOSettings(num_epochs=1, entropy_coeff=0.5)]
)
def test_optional_terms_are_those_of_each_policy_alone(settings):
    stack, alone = new_stack(4), new_stack(4)[:1]
    both, adam = full_batch(stack, [0, 1]), new_adam(stack)
    first = type(both)(**{name: tensor[:1] for name, tensor in vars(both).items()})
    update_policies(stack, LAYOUT, adam, both, settings)
    update_policies(alone, LAYOUT, new_adam(alone), first, settings)
    torch.testing.assert_close(alone[0], stack[0], rtol=0, atol=1e-9)
    if settings.grad_clip is not None:
        gradient = adam.all.exp_avg[0] / 0.1  # after one step, exp_avg = (1 - 0.9) * gradient
        assert gradient.norm().item() == pytest.approx(0.1, rel=1e-4)


def test_a_row_is_a_state_dict():
    row = initial_parameters(LAYOUT, 7, "client_000")
    state = {name: tensor[0] for name, tensor in LAYOUT.views(row.unsqueeze(0)).items()}
    PlainPPO(state)  # torch's own modules accept it
    assert torch.equal(LAYOUT.row(state), row)
    assert LAYOUT.size == 5 * 128 + 128 + 2 * 128 + 2 + 5 * 128 + 128 + 128 + 1
    with pytest.raises(ValueError, match="expected"):
        LAYOUT.row({name: tensor for name, tensor in state.items() if name != "actor.2.bias"})


def updated(bias: float = 0.0, rewards: tuple[float, float] = (0.0, 0.0), **settings) -> torch.Tensor:
    """One policy after an update on two steps; ``bias`` is what its actor adds to the logit of participating."""
    stack = new_stack(1)
    LAYOUT.views(stack)["actor.2.bias"][0, 1] += bias
    adam, buffer = new_adam(stack), ParticipationBuffer(1, 2, OBS_DIM)
    observation = np.full((1, OBS_DIM), 0.5, np.float32)
    for reward in rewards:
        log_probs = acted_log_probs(stack, observation)
        buffer.add(np.array([0]), observation, observation, log_probs, np.array([reward], np.float32))
    update_policies(stack, LAYOUT, adam, buffer.take_full(), PPOSettings(use_critic=False, **settings))
    return stack


@pytest.mark.parametrize("bias", [-2.0, 2.0])
def test_the_entropy_bonus_makes_a_policy_less_certain(bias):
    observation = torch.full((1, 1, OBS_DIM), 0.5)
    before, after = (
        actor_logits(LAYOUT.views(updated(bias, entropy_coeff=coefficient)), observation)[0, 0]
        for coefficient in (0.0, 0.5)
    )
    assert (after[1] - after[0]).abs() < (before[1] - before[0]).abs()


def test_gradients_shorter_than_the_limit_are_not_scaled():
    plain, lax, strict = (updated(rewards=(1.0, 0.0), grad_clip=limit) for limit in (None, 1e9, 1e-9))
    assert torch.equal(plain, lax) and not torch.equal(plain, strict)
