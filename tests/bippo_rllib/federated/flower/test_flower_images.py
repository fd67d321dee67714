"""The example of five sites with folders of images: in this process, and by ``flwr run``."""

from __future__ import annotations

import importlib
import json
import sys

import numpy as np
import pandas as pd
import pytest
from flower_in_process import InProcessGrid, server_context
from flower_superlink import flwr_run, superlink
from PIL import Image
from source_tree import ROOT

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
@pytest.mark.parametrize("selector", ["bippo-s", "random"])
def test_sites_train_under_the_budget_and_a_second_run_goes_on(example, images, tmp_path, selector, capsys):
    run = tmp_path / selector
    for rounds in (2, 3):
        config = settings(images, run, selector=selector, rounds=rounds)
        grid = InProcessGrid(example("site_node").client_app, 5, config)
        example("server").serve(grid, server_context(config))
    history = pd.read_json(run / "history.jsonl", lines=True)
    assert set(history["client"]) == set(example("make_images").SITES) and set(history["round"]) == {0, 1, 2, 3}
    spent_j = history[history["selected"]].groupby("round")["cost_j"].sum()
    assert len(spent_j) == 3 and (spent_j <= BUDGET_J / 4).all()
    assert (history["selected"] == history["trained"]).all()
    assert history["effect"].notna().any() == (selector == "bippo-s")
    assert f"{selector}: mean accuracy " in capsys.readouterr().out


def test_a_figure_is_drawn_of_runs_side_by_side(example, tmp_path):
    for name, effect in (("bippo-s", 0.1), ("random", None)):
        record = {"cost_j": 0.02, "accuracy": 0.5, "suggestion": None, "selected": True, "trained": True}
        records = [record | {"round": r, "client": c, "effect": effect} for r in range(3) for c in ("arras", "cork")]
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    example("plot").draw([tmp_path / "bippo-s", tmp_path / "random"], tmp_path / "figure.png")
    with Image.open(tmp_path / "figure.png") as figure:
        assert figure.format == "PNG"


@pytest.mark.ray
@pytest.mark.slow
def test_sites_run_in_flowers_own_simulation(ray_session, ray_address, images, tmp_path):
    changes = settings(images, tmp_path / "run", rounds=2)
    config = " ".join(
        f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in changes.items()
    )
    with superlink(tmp_path / "flower", ray_address) as environment:
        printed = flwr_run(EXAMPLE, environment, 5, config)
    assert "bippo-s: mean accuracy " in printed, printed
