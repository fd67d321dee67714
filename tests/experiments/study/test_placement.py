"""How a study's trials and FL actors fit onto nodes, and what each reserves."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import pytest
from source_tree import ROOT

from bippo_rllib import Bippo, BippoConfig
from envs.settings.execution import Execution
from envs.training.actor_plan import Resources
from experiments import tune_bippo
from experiments.scenarios import DIGITS
from experiments.study.placement import Placement, place
from experiments.study.study import Study, Trial
from experiments.study.trial import StudyTrial
from experiments.study.trial_config import config_of, param_space


def study(parallel_trials: int | None = None, **execution: object) -> Study:
    """Six trials."""
    plain = Study(DIGITS, ("bippo", "fedavg"), (1, 2, 3), 5, Path("/nowhere"), parallel_trials=parallel_trials)
    return dataclasses.replace(plain, execution=Execution(**execution))


@pytest.mark.parametrize(
    ("asked", "nodes", "side_by_side", "actors"),
    [
        (study(), [(4, 0)], 4, None),
        (study(2), [(4, 0)], 2, None),
        (study(), [(64, 0)], 6, None),
        (study(executor="ray"), [(5, 0)], 2, (2, 1.0, 0.0)),
        (study(3, executor="ray", num_actors=1), [(2, 0), (2, 0)], 3, (1, 1.0, 0.0)),
        # Two nodes with three cores have room for six actors, and a trial's may live on both.
        (study(executor="ray", num_actors=2), [(3, 0), (3, 0)], 3, (2, 1.0, 0.0)),
        (study(2), [(8, 4)], 2, (2, 1.0, 1.0)),
        (study(3), [(8, 1)], 3, (1, 1.0, 1 / 3)),
        (study(executor="serial"), [(8, 4)], 6, None),
    ],
)
def test_trials_side_by_side(asked, nodes, side_by_side, actors):
    found = place(asked, [Resources(*node) for node in nodes])
    assert found.side_by_side == side_by_side and found.gpu_share == 0.0
    if actors is None:
        assert (found.execution, found.bundles) == (Execution("serial"), [])
    else:
        number, cpus, gpus = actors
        bundle = {"CPU": cpus} | ({"GPU": gpus} if gpus else {})
        assert found.bundles == [bundle] * number
        assert found.execution == Execution("ray", *actors)


@pytest.mark.parametrize(
    "settings",
    [{"num_actors": 2}, {"cpus_per_actor": 2.0}, {"gpus_per_actor": 1.0}],
    ids=lambda settings: next(iter(settings)),
)
def test_what_is_for_actors_is_refused_where_there_are_none(settings):
    (name,) = settings
    with pytest.raises(ValueError, match=f"{name} is .* executor='auto' trains without actors here"):
        place(study(**settings), [Resources(8)])
    assert place(study(**settings), [Resources(16, 8)]).bundles
    assert place(study(gpus_per_actor=0.0), [Resources(8, 8)]).execution.executor == "serial"


def test_a_device_of_the_users_own_is_shared_by_serial_trials():
    on_gpu = dataclasses.replace(study(4), settings={"env.device": "cuda:0"})
    assert place(on_gpu, [Resources(8, 1)]) == Placement(4, Execution("serial", device="cuda:0"), gpu_share=0.25)


def test_trials_that_would_be_read_as_one_are_refused():
    settings = {"env.energy_meter": "rapl"}
    asked = dataclasses.replace(study(), settings=settings)
    with pytest.raises(
        ValueError, match=r"^energy_meter rapl .* 4 clients would train at once; use --parallel-trials 1"
    ):
        place(asked, [Resources(4)])
    assert place(dataclasses.replace(study(1), settings=settings), [Resources(4)]).side_by_side == 1
    on_gpus = dataclasses.replace(study(), settings={"env.energy_meter": "nvml"}, execution=Execution(num_actors=1))
    assert place(dataclasses.replace(on_gpus, parallel_trials=2), [Resources(8, 2)]).side_by_side == 2
    with pytest.raises(
        ValueError, match=r"^energy_meter nvml reads a whole GPU, of which each training would have 0\.5"
    ):
        place(dataclasses.replace(on_gpus, parallel_trials=4), [Resources(8, 2)])


def test_the_page_says_what_the_default_study_does_on_gpus():
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    table = page.partition("### One, two and eight GPUs")[2].partition("\nThese are computed")[0]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines() if row.startswith("|")]
    nine = Study(DIGITS, ("bippo-r", "bippo", "fedavg"), (7, 28, 42), 5, Path("/nowhere"))
    for gpus, cores, side_by_side, each in rows[2:]:
        found = place(nine, [Resources(float(cores), float(gpus))])
        assert found.side_by_side == int(side_by_side)
        if found.execution.executor == "serial":
            assert each.startswith("no actors") and float(gpus) == 0
        else:
            actors, share = re.fullmatch(r"(\d) actors? with (\S+) GPU", each).groups()
            bundle = {"CPU": 1.0, "GPU": pytest.approx(float(Fraction(share)))}
            assert found.bundles == [bundle] * int(actors)
    assert {gpus for gpus, *_ in rows[2:]} >= {"1", "2", "8"}


def test_one_trial_must_fit():
    with pytest.raises(ValueError, match=r"need 2 CPUs and 2 GPUs = 2 x .*, the Ray cluster has 8 CPUs and 1 GPU"):
        place(study(executor="ray", num_actors=2, gpus_per_actor=1), [Resources(8, 1)])


def point(placement: Placement) -> dict:
    """A point of the search space."""
    return {**param_space(study(), placement), "trial": asdict(Trial("bippo", 1)), "search": {}}


def test_a_trial_reserves_a_bundle_per_actor():
    placed = place(study(executor="ray", num_actors=2, cpus_per_actor=0.5), [Resources(4)])
    request = StudyTrial.default_resource_request(point(placed))
    # The head is empty: the trial waits while its actors work.
    assert request.head_cpus == 0 and request.bundles == [{"CPU": 0.5}, {"CPU": 0.5}]
    config = config_of(point(placed))
    assert config.env_bundles == [{"CPU": 0.5}] * 2
    env = config.env(config.env_config).parallel_env
    assert (env.config.executor, env.config.num_actors, env.config.cpus_per_actor) == ("ray", 2, 0.5)
    serial = StudyTrial.default_resource_request(point(Placement(1, Execution("serial"), gpu_share=0.5)))
    assert serial.bundles == [{"CPU": 1.0, "GPU": 0.5}]


def test_bippo_adds_the_bundles_of_the_environment_to_its_own():
    config = BippoConfig().env_resources(bundles=[{"CPU": 1, "GPU": 0.5}] * 2)
    request = Bippo.default_resource_request(config)
    assert request.bundles == [{"CPU": 1.0}, {"CPU": 1.0, "GPU": 0.5}, {"CPU": 1.0, "GPU": 0.5}]
    assert Bippo.default_resource_request(config.to_dict()).bundles == request.bundles
    assert Bippo.default_resource_request(BippoConfig()).bundles == [{"CPU": 1.0}]


@pytest.mark.parametrize("bundle", [{}, {"CPU": 0}, {"GPU": -1.0}, {"CPU": "1"}])
def test_a_bundle_that_reserves_nothing_is_refused(bundle):
    with pytest.raises(ValueError, match="reserves nothing"):
        BippoConfig().env_resources(bundles=[{"CPU": 1}, bundle])


def test_flags_reach_the_study(capsys):
    argv = ["--executor", "ray", "--num-actors", "2", "--gpus-per-actor", "0.5", "--cpus-per-actor", "2"]
    asked = tune_bippo.study_of(tune_bippo.parser().parse_args(argv), argv)
    assert asked.execution == Execution("ray", num_actors=2, cpus_per_actor=2.0, gpus_per_actor=0.5)
    # It does not change what run.json says was compared.
    assert "executor" not in asked.federation
    for arguments, message in (
        ("--executor rays", "executor is 'rays'; choose one of auto, serial, ray"),
        ("--executor ray --num-actors 9999", "the FL actors need 9999 CPUs and 0 GPUs"),
        ("--set env.num_actors=2", "--set env.num_actors: use --num-actors for this one"),
        ("--executor serial --num-actors 2", "--num-actors is 2; --executor='serial' has no actors"),
    ):
        assert tune_bippo.main(arguments.split()) == 2
        assert message in capsys.readouterr().err
