"""Every setting of RLlib's ``PPOConfig`` that may be changed; ``config_checks`` refuses a change of any other.

New settings of a later RLlib are in no list here, and so are refused until somebody has looked at them.
"""

from __future__ import annotations

#: Who honours a setting -> settings.
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

#: Honoured by ``EpisodeEnvRunner``, which runs RLlib's own episodes and env-to-module pieces.
HONOURED_ON_EPISODES = """
    _env_to_module_connector add_default_connectors_to_env_to_module_pipeline episodes_to_numpy episode_lookback_horizon
"""

#: Why a setting cannot matter, so that it is not worth an error -> settings.
CANNOT_MATTER: dict[str, str] = {
    "RLlib sets it itself": """
        algo_class in_evaluation simple_optimizer _is_frozen _per_module_overrides _prior_exploration_config
    """,
    "actions are 0 or 1, there is nothing to scale": "normalize_actions clip_actions",
    "remote env runners, of which there are none": """
        validate_env_runners_after_construction max_requests_in_flight_per_env_runner sample_timeout_s
        create_env_on_local_worker merge_env_runner_states broadcast_env_runner_states
        env_runner_state_server_max_concurrency restart_failed_env_runners ignore_env_runner_failures
        max_num_env_runner_restarts delay_between_env_runner_restarts_s num_consecutive_env_runner_failures_tolerance
        env_runner_health_probe_timeout_s env_runner_restore_timeout_s _dont_auto_sync_env_runner_states
        callbacks_on_env_runners_recreated metrics_episode_collection_timeout_s evaluation_sample_timeout_s
        evaluation_auto_duration_min_env_steps_per_sample evaluation_auto_duration_max_env_steps_per_sample
        evaluation_unhealthy_workers_timeout_s evaluation_error_after_n_consecutive_skips
    """,
    "remote learners, of which there are none": """
        max_requests_in_flight_per_learner max_requests_in_flight_per_aggregator_actor torch_ddp_kwargs local_gpu_idx
    """,
    "details of compiling modules, which is refused": """
        torch_compile_learner_what_to_compile torch_compile_learner_dynamo_backend torch_compile_learner_dynamo_mode
        torch_compile_worker_dynamo_backend torch_compile_worker_dynamo_mode
    """,
    "details of TensorFlow, which is refused": """
        eager_tracing eager_max_retraces tf_session_args local_tf_session_args enable_tf1_exec_eagerly
        _tf_policy_handles_more_than_one_loss
    """,
    "details of the old API stack, which is refused": """
        policy_map_capacity remote_env_batch_wait_ms update_worker_filter_stats use_worker_filter_stats
        sampler_perf_stats_ema_coef sync_filters_on_rollout_workers_timeout_s
        _disable_initialize_loss_from_dummy_batch
    """,
    "details of offline data and its evaluation, which are refused": """
        input_read_method input_read_method_kwargs input_read_schema input_read_episodes input_read_sample_batches
        input_read_batch_size input_filesystem input_filesystem_kwargs input_compress_columns input_spaces_jsonable
        input_config materialize_data materialize_mapped_data map_batches_kwargs iter_batches_kwargs
        ignore_final_observation prelearner_class prelearner_buffer_class prelearner_buffer_kwargs
        prelearner_module_synch_period prelearner_use_recorded_module_states dataset_num_iters_per_learner
        actions_in_input_normalized postprocess_inputs shuffle_buffer_size
        output_config output_compress_columns output_max_file_size output_max_rows_per_file
        output_write_remaining_data output_write_method output_write_method_kwargs output_filesystem
        output_filesystem_kwargs output_write_episodes ope_split_batch_by_episode
        offline_evaluation_type offline_eval_runner_class offline_loss_for_module_fn offline_evaluation_duration
        offline_evaluation_timeout_s num_cpus_per_offline_eval_runner num_gpus_per_offline_eval_runner
        custom_resources_per_offline_eval_runner restart_failed_offline_eval_runners
        ignore_offline_eval_runner_failures max_num_offline_eval_runner_restarts offline_eval_runner_restore_timeout_s
        max_requests_in_flight_per_offline_eval_runner validate_offline_eval_runners_after_construction
        offline_eval_runner_health_probe_timeout_s offline_eval_rl_module_inference_only
        broadcast_offline_eval_runner_states offline_eval_batch_size_per_runner dataset_num_iters_per_eval_runner
        callbacks_on_offline_eval_runners_recreated callbacks_on_evaluate_offline_start
        callbacks_on_evaluate_offline_end
    """,
}

_ONE_PROCESS = "parallelism comes from Tune trials and from the environment itself"

#: Why BIPPO does not honour a setting, where more can be said than that -> settings. The first that is found is named.
REFUSED_BECAUSE: dict[str, str] = {
    "policies and sampler are parts of RLlib's new API stack": """
        enable_rl_module_and_learner enable_env_runner_and_connector_v2
    """,
    "it belongs to RLlib's old API stack, BIPPO runs on the new one": """
        compress_observations preprocessor_pref sample_collector remote_worker_envs observation_fn
    """,
    f"RLlib loses the sampler's epsilon between remote env runners; {_ONE_PROCESS}": "num_env_runners",
    f"evaluation runs in this process; {_ONE_PROCESS}": "evaluation_num_env_runners evaluation_parallel_to_training",
    f"policies are updated where they act; {_ONE_PROCESS}": "num_learners",
    "the budget is shared within one environment": "num_envs_per_env_runner gym_env_vectorize_mode",
    "env runner and learner share a process, see num_cpus_for_main_process": "num_cpus_per_env_runner",
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
    "advantages are generalised advantage estimates": "use_gae",
    "the objective has no KL term": "use_kl_loss kl_coeff kl_target",
    "BIPPO takes one number": "lr_schedule entropy_coeff_schedule",
    "gradients are clipped by each policy's global norm": "grad_clip_by",
    "the optimiser is Adam with PyTorch's defaults": "optimizer",
    "the learner reads the steps itself": "_learner_connector add_default_connectors_to_learner_pipeline",
    "all policies are updated in one batch with one setting": "algorithm_config_overrides_per_module",
    "policies have a fixed form, see hidden_size": "model _model_config _rl_module_spec vf_share_layers",
    "policies are PyTorch tensors": "framework_str",
    "modules this small do not gain from compilation": "torch_compile_learner torch_compile_worker",
    "a restarted environment would lose its rounds": "restart_failed_sub_environments",
    "spaces, observations and rewards are taken as the environment gives them; change them there": """
        observation_space action_space clip_rewards observation_filter
    """,
    "the sampler explores, see epsilon": "exploration_config",
    "policies learn from their environment, not from recorded data": "input_",
    "steps are not recorded; write what you need in a callback": "output",
    "checkpoints are pickles": "_use_msgpack_checkpoints",
}

#: Setting -> the same.
REASONS = {name: reason for reason, names in REFUSED_BECAUSE.items() for name in names.split()}

#: Other values that mean the same as BIPPO's.
ALSO_FINE: dict[str, tuple[object, ...]] = {
    "_train_batch_size_per_learner": (None,),
    "rollout_fragment_length": ("auto",),
    "min_time_s_per_iteration": (0,),
    "min_sample_timesteps_per_iteration": (None,),
    "min_train_timesteps_per_iteration": (None,),
}

#: What RLlib changes in the configuration of an evaluation.
CHANGED_IN_EVALUATION = frozenset({"batch_mode", "rollout_fragment_length"})

#: All that may be changed.
CHANGEABLE = frozenset(" ".join((*HONOURED.values(), HONOURED_ON_EPISODES, *CANNOT_MATTER.values())).split())
