"""Custom methods, models and data sets: in the command, on --resume, and what is said of those that do not fit."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from custom_parts import modules_in
from quick_federation import TINY
from ray import tune
from ray.rllib.callbacks.callbacks import RLlibCallback
from study_runs import TunerHere

import envs
from bippo_rllib import BippoConfig
from envs import FederationConfig, load_dataset
from envs.training.models import build_model
from experiments import tune_bippo
from experiments.custom_methods import _custom_method, find_method
from experiments.results.files import sha256
from experiments.results.row_schema import TIMING_COLUMNS
from experiments.results.rows import read_rows
from experiments.scenarios import SCENARIOS
from experiments.study.custom_modules import custom_modules
from experiments.study.row_callback import RowCallback, TrialInfo
from experiments.study.study import Study
from experiments.study.trial_config import bippo_config

ODD = """
import torch

from bippo_rllib import BippoConfig
from envs import Dataset

SHARED = BippoConfig()
CLASSES = ("a", "b", "c", "d")


def by_loss():
    return BippoConfig().selection(score_key="loss")


def shared():
    return SHARED


def nothing(*anything):
    pass


def broken():
    raise RuntimeError("not\\ntoday")


def leaves(*anything):
    raise SystemExit(0)


class Odd(BaseException):
    pass


def odd(*anything):
    raise Odd("one\\ntwo")


def interrupted(*anything):
    raise KeyboardInterrupt


def too_large(input_shape, num_classes):
    return torch.nn.Linear(2**20, 2**20)


class Leaves(torch.nn.Module):
    def forward(self, images):
        raise SystemExit(0)


def of_one_that_leaves(input_shape, num_classes):
    return Leaves()


def too_few(input_shape, num_classes):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, num_classes - 1))


def draws_and_counts(input_shape, num_classes):
    norm = torch.nn.BatchNorm1d(16, momentum=None)  # a cumulative mean, by the number of batches it has seen
    inputs = input_shape[1] * input_shape[2]
    layers = torch.nn.Linear(inputs, 16), norm, torch.nn.ReLU(), torch.nn.Dropout(0.5), torch.nn.Linear(16, num_classes)
    return torch.nn.Sequential(torch.nn.Flatten(), *layers)


IMAGES, LABELS = torch.zeros(8, 1, 4, 4, dtype=torch.uint8), torch.arange(8) % 4


def data(images=IMAGES, labels=LABELS, test_images=None):
    test_images = images if test_images is None else test_images
    return lambda data_dir: Dataset("odd", images, labels, test_images, labels, CLASSES)


of_arrays, of_doubles = data(IMAGES.float().numpy()), data(IMAGES.double())
of_nan, of_columns = data(torch.full((8, 1, 4, 4), torch.nan)), data(labels=LABELS[:, None])
of_two_sizes, of_no_class = data(test_images=IMAGES.new_zeros(8, 1, 6, 6)), data(labels=torch.arange(8))
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The command runs in a folder with the page's module and a package, as `python -m` does."""
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "odd.py").write_text(ODD)
    (tmp_path / "pack" / "half.py").write_text("import no_such_package\n")
    (tmp_path / "pack" / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    (tmp_path / "pack" / "stopped.py").write_text("raise KeyboardInterrupt\n")
    _custom_method.cache_clear()
    with modules_in(tmp_path, monkeypatch):
        yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "pack"]:
        del sys.modules[name]


STUDY = ["--methods", "mine:in_turn", "fedavg", "--seeds", "7", "--rounds", "4", "--results-dir", "r"]
STUDY += ["--checkpoint-every", "2", "--set", "env.model=mine:build", "env.dataset=mine:load", "env.local_epochs=1"]


@pytest.mark.slow
def test_the_pages_method_model_and_data_set_in_a_study_and_on_resume(
    mine: None, ray_session: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resumed in another process, which has to import the user's module too."""
    with monkeypatch.context() as patch:
        patch.setattr(tune, "Tuner", TunerHere)
        assert tune_bippo.main(STUDY) == 0
    assert "mine:in_turn" in capsys.readouterr().out and "| mine:in_turn |" in Path("r/report.md").read_text()
    rows = read_rows("r").drop(columns=list(TIMING_COLUMNS))
    names = rows.groupby("method")["trial"].unique().map(list).to_dict()
    assert names == {"fedavg": ["fedavg-seed7"], "mine:in_turn": ["mine.in_turn-seed7"]}
    # Nobody trains again before everybody has, and four rounds are too few for all.
    chosen = [client for trained in rows[rows["method"] == "mine:in_turn"]["trained"] for client in trained]
    assert len(chosen) == len(set(chosen)) < 20
    record = json.loads(Path("r/run.json").read_text())
    assert record["methods"] == ["mine:in_turn", "fedavg"]
    # 64 pixels on 32 units on ten classes, and their biases.
    assert record["federation_record"]["model"] == {
        "name": "mine:build",
        "parameters": 65 * 32 + 33 * 10,
        "macs_per_sample": 64 * 32 + 32 * 10,
    }
    shutil.rmtree(max(Path("r/mine.in_turn-seed7").glob("checkpoint_*")))  # killed before the last one was written
    monkeypatch.setattr(tune_bippo, "_print_report", lambda study: None)
    assert tune_bippo.main(["--resume", "r", "--trust-code"]) == 0
    assert "resuming 1 trial" in capsys.readouterr().out
    pd.testing.assert_frame_equal(read_rows("r").drop(columns=list(TIMING_COLUMNS)), rows, check_exact=True)


#: Each way to name custom code -> what errors call it.
CALLED = {"--methods ": "--methods", "--set env.model=": "model", "--set env.dataset=": "dataset"}
WAYS = {**CALLED, "--set env.energy_meter=": "energy_meter"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--methods nowhere:make", "'nowhere:make'; cannot import nowhere (ModuleNotFoundError: "),
        ("--methods pack.half:make", "import pack.half (ModuleNotFoundError: No module named 'no_such_package')"),
        ("--methods mine:in_trun", "mine has no in_trun; did you mean in_turn?"),
        ("--methods pack.odd:CLASSES", "it names a tuple"),
        ("--methods pack.odd:nothing", "it returned a NoneType"),
        ("--methods pack.odd:broken", "pack.odd:broken: RuntimeError: not today"),
        *(
            (f"{flag}pack.leaves:make", f"{what} is 'pack.leaves:make'; cannot import pack")
            for flag, what in WAYS.items()
        ),
        *((f"{flag}pack.odd:leaves", f"{what} pack.odd:leaves: SystemExit: 0") for flag, what in CALLED.items()),
        *((f"{flag}pack.odd:odd", f"{what} pack.odd:odd: Odd: one two") for flag, what in CALLED.items()),
        ("--set env.model=pack.odd:too_large", "model pack.odd:too_large: RuntimeError: "),
        ("--set env.model=pack.odd:of_one_that_leaves", "called with a batch of one sample: SystemExit"),
        ("--methods ./mine:in_turn", "'./mine:in_turn'; it must be MODULE:NAME"),
        ("--methods pack.odd:shared pack.odd:shared", "pack.odd:shared twice"),
        ("--set env.model=mine:biuld", "mine has no biuld; did you mean build?"),
        ("--set env.dataset=mine:load()", "'mine:load()'; it must be MODULE:NAME"),
        ("--set env.dataset=fashion_mnist", "env.dataset: use --scenario"),
    ],
)
def test_what_does_not_fit_is_one_line(
    arguments: str, message: str, mine: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune_bippo.main(arguments.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line


@pytest.mark.parametrize(
    "way", [*(f"{way}pack.stopped:make" for way in WAYS), *(f"{way}pack.odd:interrupted" for way in CALLED)]
)
def test_an_interrupt_in_custom_code_remains_one(way: str, mine: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert tune_bippo.main(way.split()) == tune_bippo.EXIT_INTERRUPTED
    assert capsys.readouterr().err == "\ninterrupted before anything was run\n"


def test_an_own_method_is_known_by_what_it_makes(mine: None) -> None:
    in_turn, by_loss = find_method("mine:in_turn"), find_method("pack.odd:by_loss")
    assert (in_turn.learns, by_loss.learns) == (False, True)
    assert (dict(in_turn.federation), by_loss.federation) == ({}, {"with_loss": True})
    assert in_turn.description == "mine:in_turn: Clients that trained least often come first."
    # Settings that some of our methods have for themselves reach it too, where a BippoConfig has them.
    assert in_turn.settings_taken({"candidates": 3, "oracle_clients": 1, "lr": 0.1}) == {"candidates": 3, "lr": 0.1}


class Own(RLlibCallback):
    pass


def test_a_config_that_is_shared_is_copied_and_its_callbacks_are_kept(mine: None) -> None:
    shared = importlib.import_module("pack.odd").SHARED.callbacks(Own)
    config = bippo_config(TrialInfo("digits", "pack.odd:shared", 3), {"dataset": "digits"}, {"lr": 0.5}, 2)
    assert (config.lr, config.seed) == (0.5, 3)
    assert (shared.lr, shared.seed) == (BippoConfig().lr, None)
    ours, own = config.callbacks_class
    assert own is Own and isinstance(ours(), RowCallback) and ours()._info.method == "pack.odd:shared"


def test_an_own_model_is_drawn_from_its_seed_and_must_fit(mine: None) -> None:
    state = torch.random.get_rng_state()
    first, again, other = (build_model("mine:build", (1, 4, 4), 10, seed) for seed in (3, 3, 4))
    assert torch.equal(first[1].weight, again[1].weight) and not torch.equal(first[1].weight, other[1].weight)
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(ValueError, match=r"inputs of shape \(1, 1, 4, 4\) into \(1, 9\); expected \(1, 10\)"):
        build_model("pack.odd:too_few", (1, 4, 4), 10)
    with pytest.raises(ValueError, match=r"returned a NoneType; it must return a torch\.nn\.Module"):
        build_model("pack.odd:nothing", (1, 4, 4), 10)


def test_an_own_data_set_must_hold_images_and_classes(mine: None) -> None:
    assert load_dataset("mine:load") is load_dataset("mine:load")
    assert FederationConfig(dataset="mine:load").model_name == "cnn"
    for name, message in (
        ("of_arrays", r"train inputs are a ndarray; expected torch tensors"),
        ("of_doubles", r"inputs torch\.float64\[8, 1, 4, 4\], labels torch\.int64\[8\]; expected torch tensors"),
        ("of_columns", r"labels torch\.int64\[8, 1\]; expected torch tensors"),
        ("of_two_sizes", r"\(1, 4, 4\) .* \(1, 6, 6\)"),
        ("of_nan", "finite"),
        ("of_no_class", "train must hold labels from 0 to 3 only"),
        ("nothing", r"returned a NoneType; it must return an envs\.Dataset"),
    ):
        with pytest.raises(ValueError, match=message):
            load_dataset(f"pack.odd:{name}")


def test_a_model_that_draws_and_counts_depends_on_nothing_but_the_seed(mine: None) -> None:
    def weights_after(env: envs.FederatedRounds, rounds: int) -> bytes:
        for index in range(rounds):
            env.step({agent: (place + index) % 2 for place, agent in enumerate(env.agents)})
        return bytes(env.get_state()["weights"].numpy().tobytes())

    federations = [envs.parallel_env(**TINY, model="pack.odd:draws_and_counts") for _ in range(3)]
    for env in federations:
        env.reset(seed=7)
    undisturbed, again, resumed = federations
    torch.manual_seed(99)
    weights_after(undisturbed, 2)
    resumed.set_state(undisturbed.get_state())
    drawn = torch.random.get_rng_state()
    expected = weights_after(undisturbed, 2)
    assert torch.equal(torch.random.get_rng_state(), drawn)
    assert weights_after(resumed, 2) == expected and weights_after(again, 4) == expected


def test_custom_modules_are_hashed_with_what_they_import_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "mine.py": "raise SystemExit\nimport numpy, helper\nfrom pack import inner\nimport bippo_rllib\n",
        "helper.py": "def late():\n    import pack.deep.far\n",
        "pack/__init__.py": "",
        "pack/inner.py": "from . import beside\nfrom .deep import *\n",
        "pack/beside.py": "from ..nowhere import x\n",
        "pack/deep/__init__.py": "",
        "pack/deep/far.py": "(",
        "unused.py": "",
        "site-packages/installed.py": "",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    monkeypatch.syspath_prepend(tmp_path)
    study = Study(SCENARIOS["digits"], ("mine:make", "fedavg"), (7,), 3, tmp_path, settings={"env.model": "no.where:x"})
    found = custom_modules(study)
    assert sorted(found) == ["helper", "mine", "pack", "pack.beside", "pack.deep", "pack.deep.far", "pack.inner"]
    assert found["mine"] == sha256(tmp_path / "mine.py")
    (tmp_path / "pack" / "beside.py").write_text("x = 1\n")
    changed = custom_modules(study)
    assert {name for name in found if found[name] != changed[name]} == {"pack.beside"}
    assert custom_modules(replace(study, methods=("fedavg",), settings={})) == {}
