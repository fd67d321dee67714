"""The settings of RLlib's ``PPOConfig`` that BIPPO honours; ``config_checks`` refuses a change of any other.

Settings that a later RLlib adds are refused until they are listed here.
"""

from __future__ import annotations

#: What honours a setting -> settings.
HONOURED: dict[str, str] = {
    "the update": """
        lr gamma lambda_ clip_param num_epochs vf_loss_coeff vf_clip_param entropy_coeff grad_clip use_critic
        policies_to_train _learner_class learner_config_dict
    """,
    "the env runners": """
        env env_config env_runner_cls disable_env_checking seed explore policies policy_mapping_fn
        _module_to_env_connector add_default_connectors_to_module_to_env_pipeline metrics_num_episodes_for_smoothing
    """,
    "RLlib, around BIPPO's training step": """
        placement_strategy num_cpus_for_main_process custom_resources_for_main_process num_cpus_per_learner
        evaluation_interval evaluation_duration evaluation_duration_unit evaluation_config
        evaluation_force_reset_envs_before_iteration custom_evaluation_function
        callbacks_class callbacks_on_algorithm_init callbacks_on_checkpoint_loaded callbacks_on_environment_created
        callbacks_on_episode_created callbacks_on_episode_start callbacks_on_episode_step callbacks_on_episode_end
        callbacks_on_evaluate_start callbacks_on_evaluate_end callbacks_on_sample_end callbacks_on_train_result
        stats_cls_lookup log_level log_sys_usage _validate_config
    """,
}

#: Honoured by ``EpisodeEnvRunner`` only, which runs RLlib's own episodes and env-to-module connectors.
HONOURED_ON_EPISODES = """
    _env_to_module_connector add_default_connectors_to_env_to_module_pipeline episodes_to_numpy episode_lookback_horizon
"""

#: Changed by RLlib itself, not by users.
SET_BY_RLLIB = """
    algo_class in_evaluation simple_optimizer _is_frozen _per_module_overrides _prior_exploration_config
"""

#: Changed by RLlib itself in the configuration of an evaluation.
CHANGED_IN_EVALUATION = frozenset({"batch_mode", "rollout_fragment_length"})

#: Every setting that may differ from BIPPO's default.
CHANGEABLE = frozenset(" ".join((*HONOURED.values(), HONOURED_ON_EPISODES, SET_BY_RLLIB)).split())

#: Why a setting has no effect, and what to use instead -> settings that users of RLlib are likely to change.
_REASONS: dict[str, str] = {
    "BIPPO runs on RLlib's new API stack": "enable_rl_module_and_learner enable_env_runner_and_connector_v2",
    "it runs in one process; parallelism comes from Tune trials and from the environment itself": """
        num_env_runners num_learners num_envs_per_env_runner num_cpus_per_env_runner evaluation_num_env_runners
        evaluation_parallel_to_training
    """,
    "the policies are too small to gain from a GPU; give it to the environment": """
        num_gpus num_gpus_per_learner num_gpus_per_env_runner
    """,
    "one train() is one environment step, see policy_batch_size": """
        _train_batch_size_per_learner train_batch_size rollout_fragment_length batch_mode count_steps_by
        min_time_s_per_iteration min_sample_timesteps_per_iteration min_train_timesteps_per_iteration
    """,
    "each epoch is one step on the policy's whole batch, see policy_batch_size": """
        minibatch_size sgd_minibatch_size shuffle_batch_per_epoch
    """,
    "the objective has no KL term": "use_kl_loss kl_coeff kl_target",
    "BIPPO takes one number": "lr_schedule entropy_coeff_schedule",
    "policies have a fixed form, see hidden_size": "model _model_config _rl_module_spec vf_share_layers",
    "observations and rewards are used as the environment returns them; change them there": """
        observation_space action_space clip_rewards observation_filter
    """,
    "the sampler explores, see BippoConfig.selection": "exploration_config",
}

#: Setting -> why it has no effect, where there is more to say than that.
REASONS = {name: reason for reason, names in _REASONS.items() for name in names.split()}

#: Other values that mean the same as BIPPO's default.
ALSO_FINE: dict[str, tuple[object, ...]] = {
    "_train_batch_size_per_learner": (None,),
    "rollout_fragment_length": ("auto",),
    "min_time_s_per_iteration": (0,),
    "min_sample_timesteps_per_iteration": (None,),
    "min_train_timesteps_per_iteration": (None,),
}
