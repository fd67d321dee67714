"""Every setting of the installed RLlib is honoured or, when changed, refused by name."""

from __future__ import annotations

import enum
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.ppo_torch_learner import PPOTorchLearner
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.util.debug import reset_log_once
from toy_envs import Workers

from bippo_rllib import Bippo, BippoConfig
from bippo_rllib.baselines.central.config import CentralPPOConfig
from bippo_rllib.rllib_settings import HONOURED, HONOURED_ON_EPISODES, REASONS, SET_BY_RLLIB
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.pipeline import find_connector
from bippo_rllib.selection.prior import RepresentativenessPrior

SETTINGS = vars(PPOConfig())


def config(config_class: type[BippoConfig] = BippoConfig) -> BippoConfig:
    return config_class().environment(Workers, env_config={"rounds": 4}).debugging(seed=7, log_level="ERROR")


HONOURED_NAMES = [*" ".join(HONOURED.values()).split(), *HONOURED_ON_EPISODES.split()]
#: Not in RLlib 2.55.
NEW = {"custom_resources_for_main_process"}


def test_a_setting_is_in_one_list_and_exists() -> None:
    names = [*HONOURED_NAMES, *SET_BY_RLLIB.split(), *REASONS]
    assert len(names) == len(set(names))
    assert set(names) - NEW <= SETTINGS.keys() >= vars(AlgorithmConfig()).keys()


@pytest.mark.parametrize("config_class", [BippoConfig, CentralPPOConfig])
@pytest.mark.parametrize("another", [lambda value: _another(value), lambda value: "something else"])
def test_each_setting_that_is_not_honoured_is_refused_by_name(config_class, another) -> None:
    for name in SETTINGS.keys() - {*HONOURED_NAMES, *SET_BY_RLLIB.split()}:
        changed = config(config_class)
        value = another(getattr(changed, name))
        setattr(changed, name, value)
        assert getattr(changed, name) != getattr(config(config_class), name), name
        with pytest.raises(ValueError, match=rf"^{name.strip('_')}=.* instead of .* is not supported by BIPPO: "):
            changed.validate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda c: c.training(train_batch_size=4000),
            "^train_batch_size=4000 instead of 1 .* see policy_batch_size",
        ),
        (lambda c: c.training(model={"use_lstm": True}), "^model={'use_lstm': True} instead of {} .* see hidden_size"),
        (
            lambda c: c.rl_module(model_config={"fcnet_hiddens": [32]}),
            "^model_config={'fcnet_hiddens': .32.} instead",
        ),
        (lambda c: c.rl_module(rl_module_spec=RLModuleSpec()), "rl_module_spec="),
        (lambda c: c.env_runners(observation_filter="MeanStdFilter"), "observation_filter='MeanStdFilter'"),
        (lambda c: c.environment(clip_rewards=0.5), "clip_rewards=0.5"),
        (lambda c: c.resources(num_gpus=1), "num_gpus=1"),
        (lambda c: c.training(optimizer={"eps": 0.5}), "optimizer={'eps': 0.5}"),
        (lambda c: c.training(num_epochs=2, kl_coeff=0.3), "kl_coeff=0.3 .*KL"),
        (lambda c: c.framework("tf2"), "framework_str='tf2'"),
        (lambda c: c.framework(torch_compile_worker=True), "torch_compile_worker=True"),
        (lambda c: c.experimental(_use_msgpack_checkpoints=True), "use_msgpack_checkpoints=True"),
        (
            lambda c: c.api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False),
            "enable_rl_module_and_learner=False instead of True",
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


#: Settings of the update -> another value.
CHANGES_WHAT_IS_LEARNED = {
    "lr": 0.01,
    "gamma": 0.5,
    "lambda_": 0.1,
    "clip_param": 1e-6,
    "num_epochs": 2,
    "vf_loss_coeff": 0.01,
    "vf_clip_param": 1e-6,
    "entropy_coeff": 0.5,
    "grad_clip": 1e-3,
    "use_critic": False,
    "policies_to_train": [],
}


def _learned(**changes: Any) -> list[list[float]]:
    algo = config().environment(env_config={"rounds": 4, "budget": 1.0})._set(**changes).build_algo()
    for _ in range(6):
        algo.train()
    weights = algo.bank.flat.tolist()
    algo.stop()
    return weights


def test_each_setting_of_the_update_changes_what_is_learned(ray_session) -> None:
    classes = {"_learner_class", "learner_config_dict"}
    assert CHANGES_WHAT_IS_LEARNED.keys() | classes == set(HONOURED["the update"].split())
    found = {name: _learned(**{name: value}) for name, value in CHANGES_WHAT_IS_LEARNED.items()}
    found["nothing"] = _learned()
    assert [pair for pair in itertools.combinations(found, 2) if found[pair[0]] == found[pair[1]]] == []


def _never(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError(f"called with {args} and {kwargs}")


def _another(value: Any) -> Any:
    """Another value of the same type; where nothing is set, something that may not even be called."""
    match value:
        case bool():
            return not value
        case enum.Enum():
            return next(member for member in type(value) if member is not value)
        case int() | float():
            return value + 1
        case str():
            return f"not {value}"
        case list():
            return [*value, "another"]
        case dict():
            return {**value, "another": 1}
        case None:
            return _never
        case type():
            return type("Another", (value,), {})
    raise TypeError(f"no other value for {value!r}")


def test_minus_one_is_a_value_like_any_other():
    """RLlib marks settings that it no longer has with it, and leaves those out when it copies."""
    for config_class in (BippoConfig, CentralPPOConfig):
        for name in vars(config(config_class)).keys() - {"algo_class", "_is_frozen", "policies"}:
            changed = config(config_class)
            setattr(changed, name, -1)
            for again in (config_class.from_state(changed.get_state()), pickle.loads(pickle.dumps(changed))):
                assert type(getattr(again, name)) is int and getattr(again, name) == -1, name


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.training(lr=-1), "lr is -1"),
        (lambda c: c.selection(epsilon=-1), "epsilon is -1"),
        (lambda c: c.training(hidden_size=-1), "hidden_size is -1"),
        (lambda c: c.training(grad_clip=-1), "grad_clip is -1"),
        (lambda c: c.training(num_epochs=-1), "num_epochs is -1"),
        (lambda c: c.training(num_sgd_iter=-1), "num_epochs is -1"),
        (lambda c: c.training(train_batch_size=-1), "train_batch_size=-1 instead of 1"),
    ],
)
def test_minus_one_is_refused_by_build_algo_where_it_makes_no_sense(change, message):
    with pytest.raises(ValueError, match=message):
        change(config()).build_algo()
    with pytest.raises(ValueError, match=message):
        Bippo(config=change(config()).to_dict())


@pytest.mark.usefixtures("ray_session")
def test_a_prior_of_weight_minus_one_is_one(tmp_path):
    algo = config().selection(sampler="odds", prior_key="budget", prior_weight=-1).build_algo()
    again = Bippo.from_checkpoint(algo.save_to_path(tmp_path))
    for each in (algo, again):
        assert find_connector(each.env_runner.module_to_env, RepresentativenessPrior).prior.weight == -1
        each.stop()


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", np.int64(7)), ("seed", np.uint8(7)), ("seed", 7), ("lr", np.float32(0.25)), ("hidden_size", np.int32(8))],
)
def test_numbers_may_be_numpys(name, value):
    for changed in (config()._set(**{name: value}), BippoConfig.from_dict(config().to_dict() | {name: value})):
        changed.validate()
        assert type(getattr(changed, name)) in (int, float) and getattr(changed, name) == value


@pytest.mark.parametrize("name", ["lr", "gamma", "hidden_size", "policy_batch_size", "num_epochs", "prior_weight"])
@pytest.mark.parametrize("value", [True, np.True_, "1", [1]])
def test_what_is_no_number_is_refused_in_one_line(name, value):
    with pytest.raises(ValueError, match=f"^{name}( is |=).*"):
        config()._set(**{name: value}).validate()


@pytest.mark.parametrize("seed", [-1, 2**32 - 1_000_000, 1.0, np.float64(7), True, "7", [7]])
def test_what_is_no_seed_is_refused_in_one_line(seed):
    with pytest.raises(ValueError, match=r"^seed is .*; it must be an integer from 0 to 4293967295, or None"):
        config().debugging(seed=seed).validate()


def test_rllib_does_not_advise_to_leave_its_new_api_stack(caplog: pytest.LogCaptureFixture) -> None:
    reset_log_once("Bippo_on_new_api_stack")
    BippoConfig().environment(Workers).validate()
    assert "new API stack" not in caplog.text
