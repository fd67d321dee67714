"""Every setting of the installed RLlib: honoured, refused by name when changed, or of no consequence."""

from __future__ import annotations

from typing import Any

import pytest
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from toy_envs import Workers

from bippo_rllib import BippoConfig, CentralPPOConfig, EpisodeEnvRunner
from bippo_rllib.rllib_settings import CANNOT_MATTER, CHANGEABLE, HONOURED, HONOURED_ON_EPISODES, REFUSED_BECAUSE

SETTINGS = vars(PPOConfig())
#: Where the installed RLlib is an older one.
NOT_IN_2_55 = {
    "custom_resources_for_main_process",
    "env_runner_state_server_max_concurrency",
    "evaluation_error_after_n_consecutive_skips",
    "evaluation_unhealthy_workers_timeout_s",
} - SETTINGS.keys()


def config(config_class: type[BippoConfig] = BippoConfig) -> BippoConfig:
    return config_class().environment(Workers, env_config={"rounds": 4}).debugging(seed=7, log_level="ERROR")


def test_a_setting_is_in_one_list_and_exists() -> None:
    lists = [*HONOURED.values(), HONOURED_ON_EPISODES, *CANNOT_MATTER.values(), *REFUSED_BECAUSE.values()]
    names = " ".join(lists).split()
    assert len(names) == len(set(names))
    assert set(names) - NOT_IN_2_55 <= SETTINGS.keys() >= vars(AlgorithmConfig()).keys()


@pytest.mark.parametrize("config_class", [BippoConfig, CentralPPOConfig])
def test_each_setting_that_is_in_no_list_of_changeable_ones_is_refused_by_name(config_class) -> None:
    for name in SETTINGS.keys() - CHANGEABLE:
        changed = config(config_class)
        setattr(changed, name, "something else")
        with pytest.raises(
            ValueError, match=rf"^{name.strip('_')}='something else' instead of .* is not supported by BIPPO: .*$"
        ):
            changed.validate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c.training(train_batch_size=4000),
            "^train_batch_size=4000 instead of 1 .* see policy_batch_size.$",
        ),
        (lambda c: c.training(model={"use_lstm": True}), "^model={'use_lstm': True} instead of {} .* see hidden_size"),
        (
            lambda c: c.rl_module(model_config={"fcnet_hiddens": [32]}),
            "^model_config={'fcnet_hiddens': .32.} instead",
        ),
        (lambda c: c.rl_module(rl_module_spec=RLModuleSpec()), "rl_module_spec=.* a fixed form"),
        (lambda c: c.env_runners(observation_filter="MeanStdFilter"), "observation_filter='MeanStdFilter'"),
        (lambda c: c.environment(clip_rewards=0.5), "clip_rewards=0.5"),
        (lambda c: c.resources(num_gpus=1), "num_gpus=1 .* give it to the environment"),
        (lambda c: c.training(optimizer={"eps": 0.5}), "optimizer={'eps': 0.5}"),
        (lambda c: c.training(num_epochs=2, kl_coeff=0.3), "kl_coeff=0.3 .* no KL term"),
        (lambda c: c.framework("tf2"), "framework_str='tf2'"),
        (lambda c: c.framework(torch_compile_worker=True), "torch_compile_worker=True"),
        (lambda c: c.experimental(_use_msgpack_checkpoints=True), "use_msgpack_checkpoints=True .* are pickles"),
        (
            lambda c: c.api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False),
            "enable_rl_module_and_learner=False instead of True .* new API stack.$",
        ),
        (lambda c: c.training(learner_class=PPOTorchLearner), "learner_class is PPOTorchLearner; use BippoLearner"),
        (lambda c: c.env_runners(env_runner_cls=MultiAgentEnvRunner), "env_runner_cls is MultiAgentEnvRunner"),
        (lambda c: c.env_runners(env_runner_cls=None), "env_runner_cls is None"),
        (lambda c: c.env_runners(episode_lookback_horizon=5), "episode_lookback_horizon is set, .*EpisodeEnvRunner"),
        (lambda c: c.update_from_dict({"sampelr": "odds"}), "BippoConfig has no setting 'sampelr'; did you mean samp"),
        (lambda c: c.evaluation(evaluation_config={"num_learners": 2}), "num_learners=2"),
    ],
)
def test_what_has_no_effect_is_refused_in_one_line(change, message) -> None:
    changed = config()
    change(changed)
    with pytest.raises(ValueError, match=message) as error:
        changed.validate()
        changed.get_evaluation_config_object().validate()
    assert "\n" not in str(error.value) and len(str(error.value)) < 300


def test_rllibs_own_episodes_honour_what_belongs_to_them() -> None:
    changed = config().env_runners(env_runner_cls=EpisodeEnvRunner, episode_lookback_horizon=5)
    changed.validate()
    assert changed.episode_lookback_horizon == 5


@pytest.mark.usefixtures("ray_session")
def test_what_cannot_matter_does_not() -> None:
    def last_actions(changed: BippoConfig) -> list[dict[str, int]]:
        algo = changed.build_algo()
        actions = []
        for _ in range(6):
            algo.train()
            actions.append(algo.parallel_env.last_actions)
        actions.append(algo.bank.flat.tolist())
        algo.stop()
        return actions

    changed, ours = config(), "RLlib sets it itself"
    for name in " ".join(names for why, names in CANNOT_MATTER.items() if why != ours).split():
        if name in SETTINGS:
            setattr(changed, name, _another(getattr(changed, name)))
    assert last_actions(changed) == last_actions(config())


def _another(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else value
