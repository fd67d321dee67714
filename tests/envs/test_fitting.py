"""Federations that do not fit their data or budget: what follows from the data, and what is advised where it cannot."""

from __future__ import annotations

import logging
import re
import shlex

import pytest
from tiny_data import write_image_folders

import envs
from envs.checks import Shortage
from envs.fitting import NothingFits, fit, fitting_settings
from experiments import tune_bippo

#: Digits has 1,257 images to train with and 540 to test with; 20 clients take 50 and 20 each.
GIVEN = [
    {"num_clients": 5},
    {"num_clients": 1},
    {"num_clients": 40},
    {"num_clients": 300},
    {"train_samples": 200},
    {"partition": "dirichlet_over_labels", "alpha": 0.1, "num_clients": 30},
    {"partition": "shards", "num_clients": 60},
    {"num_clients": 4, "probing_epochs": 2.0},
]


@pytest.mark.parametrize("given", GIVEN, ids=str)
def test_what_is_not_given_follows_from_the_data_and_what_is_given_stays(given, caplog):
    with caplog.at_level(logging.WARNING):
        env = envs.parallel_env(**given, rounds=2)
    assert {name: getattr(env.config, name) for name in given} == given
    changes = fitting_settings(given)
    assert changes and not changes.keys() & given.keys()
    assert all(f"{name}={value}" in caplog.text for name, value in changes.items())
    env.reset(seed=3)
    env.step(dict.fromkeys(env.agents[:1], 1))


def test_what_fits_stays_as_it_is():
    assert fitting_settings({}) == fitting_settings({"num_clients": 10}) == {}
    assert fit({"num_clients": 5}).changes == {"budget_share": 0.428}  # the joules of 0.107 * 20 clients


def test_all_shortages_are_in_one_message_with_settings_that_fit():
    given = {"num_clients": 40, "train_samples": 60, "test_samples": 30, "budget_share": 0.001}
    with pytest.raises(NothingFits) as error:
        envs.parallel_env(**given)
    message = str(error.value)
    assert all(word in message for word in ("2400", "1257", "1200", "540", "J a round")) and "\n" not in message
    changes = dict(re.findall(r"(\w+)=([\d.]+)", message.partition("These fit:")[2]))
    assert {name: float(value) for name, value in changes.items()} == error.value.fit.changes
    envs.parallel_env(**{**given, **error.value.fit.changes})


def test_a_federation_that_cannot_fit_says_what_is_missing():
    with pytest.raises(ValueError, match="test split"):
        envs.parallel_env(num_clients=300, train_samples=4, test_samples=2)


def test_settings_of_clients_that_would_be_left_out_do_not_hide_what_is_missing():
    with pytest.raises(Shortage, match="train split"):
        fit({"noisy_clients": (19,), "train_samples": 5000}, ["num_clients"])


def refusal(arguments, capsys):
    assert tune_bippo.main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_custom_images_need_one_attempt(tmp_path, monkeypatch, capsys):
    """Three classes of 60 images, in both splits, where 20 clients would take 2,000 and 400."""
    folder = write_image_folders(tmp_path / "photos", classes=3, per_class=60, size=16, channels=1)
    started = []
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: started.append(study) or [])
    command = ["--scenario", "image-folder", "--data-dir", str(folder), "--results-dir", str(tmp_path / "r")]
    assert tune_bippo.main(command) == 0
    printed = capsys.readouterr().out.splitlines()
    follows = {key: value for key, value in started[0].settings.items() if key in printed[1]}
    assert printed[1].startswith("follows from the data:") and follows == started[0].settings and len(follows) >= 2
    # For 20 clients of 100 images one message names all that is missing, and its settings work when pasted.
    asked = [*command, "--set", "env.num_clients=20", "env.train_samples=100", "env.local_epochs=2"]
    line = refusal([*asked, "env.test_samples=50", "env.budget_share=0.001"], capsys)
    assert all(word in line for word in ("2000", "180", "1000", "J a round"))
    advice = shlex.split(line.partition("This fits: ")[2])
    assert advice[0] == "--set" and "env.local_epochs=2" in advice
    assert tune_bippo.main([*command, *advice]) == 0
    assert {f"{key}={value}" for key, value in started[1].settings.items()} == {*advice[1:]}


def test_a_small_federation_runs_in_a_study(tmp_path, monkeypatch, capsys):
    started = []
    monkeypatch.setattr(tune_bippo, "run_study", lambda study: started.append(study) or [])
    assert tune_bippo.main(["--set", "env.num_clients=5", "--results-dir", str(tmp_path / "r")]) == 0
    _, follows, header, *_ = capsys.readouterr().out.splitlines()
    assert "env.budget_share=0.428" in follows
    assert "env.num_clients=5" in header and "20" not in header  # no description that does not hold
    assert started[0].federation["budget_share"] == 0.428
