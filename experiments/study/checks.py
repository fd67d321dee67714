"""Checks of a study before Ray starts: data, budget, settings, policies and resources."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from envs.checks import SettingError
from experiments.custom_methods import check_settings_are_taken, find_method
from experiments.methods import Method
from experiments.results.setting_text import describe
from experiments.shadowed_packages import what_is_in_the_way
from experiments.study.placement import place
from experiments.study.ray_session import available_nodes
from experiments.study.settings import (
    ENV_PREFIX,
    as_typed,
    check_federation_keys,
    read_by_selection,
    split_settings,
    with_keys,
)
from experiments.study.study import Study
from experiments.study.transfer import check_fit

if TYPE_CHECKING:
    from envs import FederatedRounds

#: Why ``probing_epochs`` is refused, the one setting that some methods leave out.
_NOT_CHARGED = "no method here is charged for it, since all select without reports of all clients; leave it out"


def fitted(study: Study) -> Study:
    """Returns the study with sizes, clients and budget share that fit the data where they were not given.

    Raises:
        ValueError: If nothing fits without changing a given setting; names each shortage, and a ``--set`` that works.
    """
    from envs.config import only_read
    from envs.fitting import NothingFits, fitting_settings

    given = split_settings(study.settings)[1]
    if study.is_resumed or split_settings(study.search)[1]:
        return study
    try:
        changes = fitting_settings(only_read({**study.federation, "rounds": study.rounds}), given)
    except NothingFits as error:
        fitting = {**study.settings, **{f"{ENV_PREFIX}{name}": value for name, value in error.fit.changes.items()}}
        shortages = with_keys("; ".join(map(str, error.fit.shortages)))
        settings = shlex.join(f"{key}={value}" for key, value in fitting.items())
        raise ValueError(f"{shortages}. This fits: --set {settings}") from None
    except ValueError:
        return study  # ``check_study`` raises a better message
    return replace(study, settings={**study.settings, **{f"{ENV_PREFIX}{name}": v for name, v in changes.items()}})


def check_study(study: Study) -> None:
    """Builds the configuration of every trial and the federation of every seed, and runs nothing.

    Raises:
        ValueError: For the first problem, in one line.
    """
    # Ray's workers look into this folder before all others.
    if message := what_is_in_the_way([os.getcwd(), *sys.path]):
        raise ValueError(message)
    from experiments.study.trial_config import study_config

    check_federation_keys(split_settings({**study.settings, **study.search})[1])
    check_settings_are_taken(study.methods, {**study.settings, **study.search})
    check_settings_are_taken(study.methods, {**study.settings, **study.search}, _read_by_selection)
    for draw in study.draws:
        _check_draw(study, draw)
    federations = _federations(study, study.draws[0])
    for seed in study.seeds:
        env = _made(study, federations, seed)
    for trial in study.all_trials:
        if trial.init_from and not study.is_resumed:  # a resumed study was checked when it was started
            check_fit(trial.init_from, study_config(study, trial.method, trial.search), env)
    place(study, available_nodes(study.parallel_trials))


def _read_by_selection(method: Method, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that the method's sampler and learning read."""
    return read_by_selection(method.make_config().sampler, method.learns, settings)


def _check_draw(study: Study, draw: Mapping[str, Any]) -> None:
    """Checks the study's settings with those of one draw, for all methods and the first seed."""
    from envs.config import config_from, only_read
    from experiments.study.trial_config import study_config

    try:
        # Bad values first, then what they would rule out.
        config_from(**only_read(_settings(study, draw)), rounds=study.rounds)
        for method in study.methods:
            study_config(study, method, draw).validate()
        if split_settings(draw)[1]:
            _made(study, _federations(study, draw), study.seeds[0])
    except ValueError as error:
        if not draw:
            raise
        raise ValueError(f"--search draws {describe(draw)}: {as_typed(error)}") from None


def _settings(study: Study, draw: Mapping[str, Any]) -> dict[str, Any]:
    return {**study.federation, **asdict(study.placed_execution), **split_settings(draw)[1]}


def _federations(study: Study, draw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the distinct settings that the methods' federations read."""
    from envs.config import only_read
    from experiments.study.selector_macs import with_selector
    from experiments.study.trial_config import study_config

    settings = _settings(study, draw)
    needed = [
        with_selector(find_method(method).with_requirements(settings), study_config(study, method, draw))
        for method in study.methods
    ]
    _check_read(split_settings({**study.settings, **draw})[1], needed)
    found: list[dict[str, Any]] = []
    for federation in map(only_read, needed):
        if federation not in found:
            found.append(federation)
    return found


def _made(study: Study, federations: Sequence[Mapping[str, Any]], seed: int) -> FederatedRounds:
    """Builds the environments of a seed; returns the last."""
    import envs
    from envs.training.executor import check_device

    for federation in federations:
        check_device(str(federation.get("device", "cpu")))
        env = envs.parallel_env(**federation, rounds=study.rounds, seed=seed)
    return env


def _check_read(given: Mapping[str, Any], federations: Sequence[Mapping[str, Any]]) -> None:
    """Refuses settings of the federation that a user gave and none of the methods' federations reads."""
    from envs.config import unread

    without = [unread(each) for each in federations]
    for name, value in given.items():
        reasons = [
            left_out.get(name) if name in each else _NOT_CHARGED
            for left_out, each in zip(without, federations, strict=True)
        ]
        if all(reasons):
            raise SettingError(name, value, str(reasons[0]))
