"""``bippo benchmark rl``: what reinforcement learning adds to a round, beside stock RLlib and TorchRL's networks."""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

from bippo_rllib import BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.policies.agents import policy_of
from bippo_rllib.runners.parallel_env import rllib_env
from bippo_rllib.selection.update_matching import UpdateMatching
from experiments.benchmark.free_rounds import FreeRounds
from experiments.benchmark.stacks import PAIR, bare_kernel, torchrl_stack
from experiments.benchmark.turns import chosen, take_turns, timed, to_markdown, write_table
from experiments.study.ray_session import quiet, ray_session

BIPPO, KERNEL, STOCK, TORCHRL = "BIPPO", "bare kernel", "stock RLlib", "TorchRL stack"
#: All is computed in this process, in one thread, and what other processes do changes the time on the clock more.
CPU_MS = "CPU ms per round"
#: Pairs of rounds in a turn, where many are short.
_REPEATS = 3
_SAME_AS_OURS = "lr gamma lambda_ clip_param num_epochs minibatch_size use_kl_loss shuffle_batch_per_epoch"


def rl(arguments: argparse.Namespace) -> None:
    """Measures every case and prints the tables; with ``--output`` writes rl.json and rl.png as well."""
    cases = [(clients, trained or clients) for trained in arguments.trained for clients in sorted(arguments.clients)]
    for clients, trained in cases:
        if trained > clients:
            raise ValueError(f"--trained is {trained}, more than the {clients} of --clients; lower it, or write 'all'")
    torch.set_num_threads(1)
    quiet()
    tables = []
    with ray_session():
        for clients, trained in dict.fromkeys(cases):
            tables.append(_measure(arguments, clients, trained))
            print(to_markdown(tables[-1]), end="\n\n", flush=True)
    if arguments.output:
        table = pd.concat(tables, ignore_index=True)
        write_table(table, "rl", arguments.command, arguments.output)
        _figure(table).savefig(arguments.output / "rl.png")


def _measure(arguments: argparse.Namespace, clients: int, trained: int) -> pd.DataFrame:
    """Measures all implementations with so many clients; BIPPO with the fewest clients takes turns with them."""
    repeats = _REPEATS if trained <= 100 else 1
    makers: dict[str, Any] = {
        name: partial(_algorithm, config, repeats) for name, config in _ours(clients, trained).items()
    }
    fewest, left_out = min(arguments.clients), {}
    if trained <= fewest < clients:
        makers[f"{BIPPO}, {fewest} clients"] = partial(_algorithm, _ours(fewest, trained)[BIPPO], repeats)
    makers[STOCK] = partial(_algorithm, _stock(clients, trained), 1, calls=1)
    for name, make in {KERNEL: bare_kernel, TORCHRL: torchrl_stack}.items():
        makers[name] = lambda make=make: nullcontext(timed(make(clients, trained), PAIR, repeats, time.process_time))
    if clients > arguments.stock_max:
        left_out[STOCK] = f"{clients} clients are more than --stock-max"
    if find_spec("torchrl") is None:
        left_out[TORCHRL] = "it is not installed; pip install torchrl"
    with ExitStack() as stack:
        rounds = {name: stack.enter_context(make()) for name, make in chosen(makers, arguments.only, left_out).items()}
        gc.collect()
        gc.freeze()  # so that one's objects are not searched for garbage in another's turn
        table = take_turns(rounds, arguments.seconds, [BIPPO, KERNEL]).rename(columns={"ms per round": CPU_MS})
    gc.unfreeze()
    return pd.concat([pd.DataFrame({"clients": clients, "trained": trained}, index=table.index), table], axis=1)


def _ours(clients: int, trained: int) -> dict[str, BippoConfig]:
    """Returns our configurations, which do not explore, so that all train the same clients, the highest scores first.

    The weight of the set term is too small to change that. Batches of all clients fill together.
    """

    def greedy(config: BippoConfig) -> BippoConfig:
        config.environment(FreeRounds, env_config={"num_clients": clients, "num_trained": trained}).debugging(seed=0)
        return config.selection(sampler="odds").env_runners(explore=False)

    return {
        BIPPO: greedy(BippoConfig()),
        "with prior": greedy(BippoConfig()).selection(prior_weight=2.0),
        "with set term": greedy(BippoConfig()).selection(set_score=UpdateMatching, set_weight=1e-9),
        "central network": greedy(CentralPPOConfig()),
    }


def _stock(clients: int, trained: int) -> PPOConfig:
    """Returns RLlib's multi-policy PPO with the same networks: one ``train()`` is two rounds and one update.

    Choices that favour it: a function names what is trained (with a list RLlib builds a set for every module in every
    update), no KL term, no shuffling, no selection. RLlib pads each batch by a row and cuts it into minibatches of two,
    so that 8 epochs are 12 gradient steps there and 8 in ours.
    """
    ids = FreeRounds(clients, trained).possible_agents
    names, ours = frozenset(ids[:trained]), BippoConfig()
    network = DefaultModelConfig(fcnet_hiddens=[ours.hidden_size], fcnet_activation="tanh", vf_share_layers=False)
    env = {"num_clients": clients, "num_trained": trained}
    return (
        PPOConfig()
        .environment(rllib_env(FreeRounds), env_config=env, disable_env_checking=True)
        .environment(normalize_actions=False, clip_actions=False)
        .env_runners(num_env_runners=0, rollout_fragment_length=PAIR)
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=PAIR, **{name: getattr(ours, name) for name in _SAME_AS_OURS.split()})
        .multi_agent(
            policies=set(ids), policy_mapping_fn=policy_of, policies_to_train=lambda name, _=None: name in names
        )
        .rl_module(model_config=network)
        .debugging(seed=0, log_level="ERROR")
    )


@contextmanager
def _algorithm(config: Any, repeats: int, calls: int = PAIR) -> Iterator[Callable[[], float]]:
    """Yields a function that times as many ``train()`` as two rounds take, and leaves out the environment."""
    algo = config.build_algo()
    rounds = algo.env_runner.env.envs[0].unwrapped.parallel_env

    def pair() -> None:
        for _ in range(calls):
            algo.train()

    try:
        yield timed(pair, PAIR, repeats, lambda: time.process_time() - rounds.cpu_seconds)
    finally:
        algo.stop()


def _figure(table: pd.DataFrame) -> Figure:
    """Draws milliseconds over clients, both axes logarithmic: the fewest trained to the left, all to the right."""
    figure = Figure(figsize=(8.8, 4.0), dpi=150, layout="constrained")
    fewest = table["trained"].min()
    panels = {f"{fewest} trained": table["trained"] == fewest, "all trained": table["trained"] == table["clients"]}
    for axes, (title, rows) in zip(figure.subplots(1, 2, sharey=True), panels.items(), strict=True):
        for name, line in table[rows].groupby("implementation", sort=False):
            axes.loglog(line["clients"], line[CPU_MS], marker="o", label=name)
        axes.set(title=title, xlabel="clients", ylabel=CPU_MS)
        axes.legend(frameon=False, fontsize=7)
    return figure
