"""The example apps in this process and, with a server that is killed, in Flower's own simulation."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pandas as pd
import pytest
from flower_in_process import InProcessGrid, server_context
from flower_nodes import NAMES, error, selector
from flower_superlink import flwr_run, superlink
from PIL import Image
from source_tree import ROOT

from bippo_rllib import ClientSelector

EXAMPLE = ROOT / "docs/examples/flower_images"
MODULES = ("make_images", "node_energy", "plot", "server", "site_node")
BUDGET_J = 0.11


@pytest.fixture
def example(monkeypatch):
    """Imports a module of the example."""
    monkeypatch.syspath_prepend(EXAMPLE)
    yield importlib.import_module
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture
def images(example, tmp_path):
    """Few images of two labels, in the folders of the five sites."""
    make_images, rng = example("make_images"), np.random.default_rng(0)
    pictures = []
    for number in range(120):
        label = number % 2
        pixels = rng.integers(0, 60, (12, 12), dtype=np.uint8)
        pixels[:, 6 * label : 6 * label + 6] += 150
        pictures.append((Image.fromarray(pixels), f"side {label}".replace(" ", "-")))
    make_images.write_sites(tmp_path / "images", pictures, seed=7)
    return tmp_path / "images"


def settings(images, run, **changes):
    labels = "side-0 side-1"
    defaults = {"images": str(images), "run": str(run), "labels": labels, "selector": "bippo-s", "seed": 7}
    return defaults | {"rounds": 3, "budget-j": BUDGET_J / 4, "energy": "formula"} | changes


def test_every_image_is_at_one_site_and_only_one_site_has_wrong_labels(example, images):
    sites = example("make_images").SITES
    files = list(images.glob("*/*/*/*.png"))
    assert len(files) == 120 and {file.relative_to(images).parts[0] for file in files} == set(sites)
    wrong = {file.relative_to(images).parts[0] for file in files if not file.name.startswith(file.parent.name)}
    assert wrong == {"dresden-depot"}
    assert all(file.name.startswith(file.parent.name) for file in files if "test" in file.parts)


@pytest.mark.usefixtures("in_a_flower_task")
def test_sites_train_under_the_budget_and_a_second_run_goes_on(example, images, tmp_path, capsys):
    for method in ("bippo-s", "random"):
        run = tmp_path / method
        for rounds in (2, 3):
            config = settings(images, run, selector=method, rounds=rounds)
            grid = InProcessGrid(example("site_node").client_app, 5, config)
            example("server").serve(grid, server_context(config))
        history = pd.read_json(run / "history.jsonl", lines=True)
        assert set(history["client"]) == set(example("make_images").SITES) and set(history["round"]) == {0, 1, 2, 3}
        spent_j = history[history["selected"]].groupby("round")["cost_j"].sum()
        assert len(spent_j) == 3 and (spent_j <= BUDGET_J / 4).all()
        assert (history["selected"] == history["trained"]).all()
        assert history["effect"].notna().any() == (method == "bippo-s")
        assert f"{method}: mean accuracy " in capsys.readouterr().out
    example("plot").draw([tmp_path / "bippo-s", tmp_path / "random"], tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as figure:
        assert figure.format == "PNG"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": ""}, "images is "),
        ({"images": "images"}, "images is 'images'; .*absolute"),
        ({"images": "/none/such"}, "images is '/none/such'"),
        ({"run": "run"}, "run is 'run'; .*absolute"),
    ],
)
def test_folders_that_the_nodes_cannot_find_are_refused_before_the_first_round(example, tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        example("server").serve(None, server_context(settings(tmp_path, tmp_path / "run") | changes))


@pytest.mark.usefixtures("in_a_flower_task")
def test_a_run_of_another_selector_is_refused_and_one_without_a_site_ends_in_a_line(example, images, tmp_path, capsys):
    config = settings(images, tmp_path / "run", rounds=1)
    node = example("site_node").client_app
    example("server").serve(InProcessGrid(node, 5, config), server_context(config))
    assert "mean accuracy " in capsys.readouterr().out
    with pytest.raises(ValueError, match="another selector"):
        example("server").serve(None, server_context(config | {"selector": "random", "rounds": 2}))
    config = settings(images, tmp_path / "none")
    grid = InProcessGrid(node, 5, config)
    grid.send_and_receive = lambda messages, timeout=None: [error(message, "gone") for message in messages]
    example("server").serve(grid, server_context(config))
    assert "no site has evaluated" in capsys.readouterr().out


@pytest.fixture(scope="module")
def flower(ray_session, ray_address, tmp_path_factory):
    """Returns a function that runs an app with so many nodes, and returns what it printed."""
    with superlink(tmp_path_factory.mktemp("flower"), ray_address) as environment:
        yield lambda app, nodes, config: flwr_run(app, environment, nodes, config)


@pytest.mark.ray
@pytest.mark.slow
def test_the_example_of_digits_runs(flower, tmp_path):
    ClientSelector.fresh("random", seed=7).save(tmp_path / "selector.safetensors")
    config = f'selector="{tmp_path / "selector.safetensors"}" learn="effects" rounds=2'
    printed = flower(ROOT / "docs/examples/flower", 20, config)
    assert "mean accuracy 0." in printed, printed


@pytest.mark.ray
@pytest.mark.slow
def test_the_example_of_images_runs(flower, images, tmp_path):
    changes = settings(images, tmp_path / "run", rounds=2)
    config = " ".join(f"{key}={json.dumps(value)}" for key, value in changes.items())
    printed = flower(EXAMPLE, 5, config)
    assert "bippo-s: mean accuracy " in printed, printed


@pytest.mark.ray
@pytest.mark.slow
def test_a_server_that_is_killed_goes_on(flower, tmp_path, monkeypatch, capsys, in_a_flower_task):
    """By SIGKILL; the simulation gives all nodes other ids when it is run again.

    The run that nothing disturbs is made in this process.
    """
    app = ROOT / "tests/support/flower_app"
    monkeypatch.syspath_prepend(str(app))
    from mortal_server import client_app, server_app

    selector(NAMES[:4]).save(tmp_path / "selector.safetensors")
    run = f'folder="{tmp_path / "killed"}" kill-after='
    killed = flower(app, 4, f"{run}2")
    assert "ended with" not in killed and len((tmp_path / "killed/history.jsonl").read_text().splitlines()) == 12
    resumed = flower(app, 4, f"{run}0")
    config = {"folder": str(tmp_path / "whole"), "kill-after": 0, "rounds": 3}
    server_app(InProcessGrid(client_app, 4, config), server_context(config))
    whole = capsys.readouterr().out
    end = [line.split("ended with")[1] for line in (whole + resumed).splitlines() if "ended with" in line]
    assert len(end) == 2 and end[0] == end[1], resumed
    assert (tmp_path / "killed/history.jsonl").read_text() == (tmp_path / "whole/history.jsonl").read_text()
