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
from bippo_rllib.config_checks import ONLY_OF_SAMPLER
from bippo_rllib.rllib_settings import HONOURED, HONOURED_ON_EPISODES, REASONS, SET_BY_RLLIB
from bippo_rllib.runners.episode_env_runner import EpisodeEnvRunner
from bippo_rllib.selection.budget_sampler import STRATEGIES
from bippo_rllib.selection.pipeline import find_connector
from bippo_rllib.selection.prior import RepresentativenessPrior
from bippo_rllib.selection.update_matching import UpdateMatching

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


def of_its_own_kind(value: Any) -> Any:
    """Returns another value of the same type; where nothing is set, something that may not even be called."""
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
            return lambda *args, **kwargs: pytest.fail("called")
        case type():
            return type("Another", (value,), {})
    raise TypeError(f"no other value for {value!r}")


@pytest.mark.parametrize("config_class", [BippoConfig, CentralPPOConfig])
@pytest.mark.parametrize("another", [of_its_own_kind, lambda value: "something else"])
def test_each_setting_that_is_not_honoured_is_refused_by_name(config_class, another) -> None:
    for name in SETTINGS.keys() - {*HONOURED_NAMES, *SET_BY_RLLIB.split()}:
        changed = config(config_class)
        setattr(changed, name, another(getattr(changed, name)))
        assert getattr(changed, name) != getattr(config(config_class), name), name
        with pytest.raises(ValueError, match=rf"^{name.strip('_')} is .*; BIPPO supports .* only: "):
            changed.validate()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.training(train_batch_size=4000), "^train_batch_size is 4000; .*policy_batch_size"),
        (lambda c: c.training(model={"use_lstm": True}), "^model is {'use_lstm': True}; .*hidden_size"),
        (lambda c: c.rl_module(model_config={"fcnet_hiddens": [32]}), "^model_config is {'fcnet_hiddens': .32.};"),
        (lambda c: c.rl_module(rl_module_spec=RLModuleSpec()), "rl_module_spec is "),
        (lambda c: c.training(optimizer={"eps": 0.5}), "optimizer is {'eps': 0.5}"),
        (lambda c: c.training(num_epochs=2, kl_coeff=0.3), "kl_coeff is 0.3; .*KL"),
        (lambda c: c.framework("tf2"), "framework_str is 'tf2'"),
        (lambda c: c.experimental(_use_msgpack_checkpoints=True), "use_msgpack_checkpoints is True"),
        (
            lambda c: c.api_stack(enable_rl_module_and_learner=False, enable_env_runner_and_connector_v2=False),
            "enable_rl_module_and_learner is False; .*True",
        ),
        (lambda c: c.training(learner_class=PPOTorchLearner), "learner_class is 'PPOTorchLearner'"),
        (lambda c: c.env_runners(env_runner_cls=MultiAgentEnvRunner), "env_runner_cls is 'MultiAgentEnvRunner'"),
        (lambda c: c.env_runners(env_runner_cls=None), "env_runner_cls is None"),
        (lambda c: c.env_runners(episode_lookback_horizon=5), "episode_lookback_horizon .*EpisodeEnvRunner"),
        (lambda c: c.env_runners(env_to_module_connector=lambda env, spaces, device: None), "EpisodeEnvRunner"),
        (lambda c: c.update_from_dict({"sampelr": "odds"}), "no setting 'sampelr'; did you mean samp"),
        (lambda c: c.evaluation(evaluation_config={"num_learners": 2}), "num_learners is 2"),
        (lambda c: c.training(lr=[[0, 0.1], [10, 0.01]]), "lr is .* not a schedule"),
        (lambda c: c.selection(sampler="best"), "choose one of"),
        (lambda c: c.selection(prior_gain=2.0), "prior_gain is 2.0; .*prior_weight is 0"),
        (lambda c: c.selection(prior_only_lowers=True), "prior_only_lowers is True; .*prior_weight is 0"),
        (lambda c: c.selection(prior_weight=2.0, score_key="loss"), "prior_weight is 2.0; score_key is 'loss'"),
        (lambda c: c.selection(sampler="random", prior_weight=2.0), "prior_weight is 2.0; .*sampler='random'"),
        (lambda c: c.selection(sampler="random", score_key="loss"), "score_key is 'loss'; .*sampler='random'"),
        (lambda c: c.selection(sampler="greedy", set_score=UpdateMatching), "needs sampler='odds'"),
        (lambda c: c.update_from_dict({"set_weight": 1.0}), "set_weight is 1.0; .*set_score is None"),
        *(
            (
                lambda c, name=name, sampler=sampler: c.selection(**{"sampler": sampler, name: 0.5}),
                f"{name} is 0.5; .*only",
            )
            for name, only in ONLY_OF_SAMPLER.items()
            for sampler in STRATEGIES
            if sampler != only
        ),
        (lambda c: c.selection(sampler="odds", set_score=dict), "set_score makes a dict"),
        (lambda c: c.selection(sampler="odds", set_score=lambda: None), "set_score makes a NoneType"),
        (lambda c: c.selection(sampler="odds", set_score="matching"), "set_score is 'matching'"),
        (lambda c: c.selection(sampler="odds", set_score=UpdateMatching()), "set_score is .*; each run needs one"),
    ],
)
def test_what_has_no_effect_is_refused_in_one_line(change, message) -> None:
    changed = config()
    change(changed)
    with pytest.raises(ValueError, match=message) as error:
        changed.validate()
        changed.get_evaluation_config_object().validate()
    assert "\n" not in str(error.value) and len(str(error.value)) < 300
    config().env_runners(env_runner_cls=EpisodeEnvRunner, episode_lookback_horizon=5).validate()


@pytest.mark.parametrize(("name", "sampler"), ONLY_OF_SAMPLER.items())
def test_settings_of_a_sampler_are_taken_with_it_and_by_an_evaluation_with_another(name, sampler):
    taken = config().selection(**{"sampler": sampler, name: 0.5}).evaluation(evaluation_config={"sampler": "greedy"})
    taken.validate()
    evaluating = taken.get_evaluation_config_object()
    evaluating.validate()
    assert (evaluating.sampler, getattr(evaluating, name)) == ("greedy", 0.5)


NAN, INF = float("nan"), float("inf")
#: What a setting needs beside it.
NEEDED = {"candidates": {"score_key": "loss"}, "set_weight": {"sampler": "odds", "set_score": UpdateMatching}}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *(("epsilon", [2.0, True]), ("policy_batch_size", [0, True, "1"]), ("hidden_size", [1.5, True, [1]])),
        *(("lr", [0.0, NAN, True, "1"]), ("gamma", [2.0, [1]]), ("lambda_", [-0.1]), ("clip_param", [-1.0])),
        *(("grad_clip", [0.0]), ("vf_clip_param", [0.0]), ("entropy_coeff", [-1.0]), ("num_epochs", [np.True_, "1"])),
        *(("prior_weight", [NAN, "much", -INF, True]), ("prior_gain", [-1.0, INF]), ("set_weight", [NAN])),
        *((name, ["no", 1, None]) for name in ("highest_first", "prior_only_lowers", "prior_standardised")),
        *((name, [None, 3, ["cost"]]) for name in ("cost_key", "budget_key", "failed_key", "dropped_key")),
        *(("prior_key", [None, 3]), ("size_key", [None, 3]), ("score_key", [3, ("loss",)])),
        ("candidates", [0, 2.5]),
        ("seed", [-1, 2**32 - 1_000_000, 1.0, np.float64(7), True, "7", [7]]),
    ],
)
def test_a_value_out_of_range_is_refused(name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"^{name}( is |=)") as error:
            config()._set(**NEEDED.get(name, {}), **{name: value}).validate()
        assert "\n" not in str(error.value)


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
    return weights


def test_each_setting_of_the_update_changes_what_is_learned(ray_session) -> None:
    classes = {"_learner_class", "learner_config_dict"}
    assert CHANGES_WHAT_IS_LEARNED.keys() | classes == set(HONOURED["the update"].split())
    found = {name: _learned(**{name: value}) for name, value in CHANGES_WHAT_IS_LEARNED.items()}
    found["nothing"] = _learned()
    assert [pair for pair in itertools.combinations(found, 2) if found[pair[0]] == found[pair[1]]] == []


def test_minus_one_is_a_value_like_any_other():
    """RLlib marks settings that it no longer has with it, and leaves those out when it copies."""
    for config_class in (BippoConfig, CentralPPOConfig):
        for name in vars(config(config_class)).keys() - {"algo_class", "_is_frozen", "policies"}:
            changed = config(config_class)
            setattr(changed, name, -1)
            for again in (config_class.from_state(changed.get_state()), pickle.loads(pickle.dumps(changed))):
                assert type(getattr(again, name)) is int and getattr(again, name) == -1, name


@pytest.mark.usefixtures("ray_session")
def test_minus_one_counts_when_an_algorithm_is_built(tmp_path):
    for change, message in (
        (lambda c: c.training(lr=-1), "lr is -1"),
        (lambda c: c.training(num_sgd_iter=-1), "num_epochs is -1"),
        (lambda c: c.training(train_batch_size=-1), "train_batch_size is -1"),
    ):
        with pytest.raises(ValueError, match=message):
            change(config()).build_algo()
        with pytest.raises(ValueError, match=message):
            Bippo(config=change(config()).to_dict())
    algo = config().selection(sampler="odds", prior_key="budget", prior_weight=-1).build_algo()
    again = Bippo.from_checkpoint(algo.save_to_path(tmp_path))
    for each in (algo, again):
        assert find_connector(each.env_runner.module_to_env, RepresentativenessPrior).prior.weight == -1


@pytest.mark.parametrize(
    ("name", "value"),
    [("seed", np.int64(7)), ("seed", np.uint8(7)), ("seed", 7), ("lr", np.float32(0.25)), ("hidden_size", np.int32(8))],
)
def test_numbers_may_be_numpys(name, value):
    for changed in (config()._set(**{name: value}), BippoConfig.from_dict(config().to_dict() | {name: value})):
        changed.validate()
        assert type(getattr(changed, name)) in (int, float) and getattr(changed, name) == value


def test_rllib_does_not_advise_to_leave_its_new_api_stack(caplog: pytest.LogCaptureFixture) -> None:
    reset_log_once("Bippo_on_new_api_stack")
    BippoConfig().environment(Workers).validate()
    assert "new API stack" not in caplog.text
