"""Policies in a checkpoint: whatever is wrong with their file, it is one line, runs no code and takes no memory."""

from __future__ import annotations

import copy
import pickle
import random
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bippo_rllib.policies.actor_critic import ParameterLayout, initial_parameters
from bippo_rllib.policies.saved_policies import policies_file, read_policies


def policy(layout: ParameterLayout, name: str) -> dict[str, np.ndarray]:
    row = initial_parameters(layout, 7, name).unsqueeze(0)
    return {key: array[0].numpy() for key, array in layout.views(row).items()}


def independent() -> dict[str, Any]:
    return {f"client_{client:03d}": policy(ParameterLayout(5, 4), f"client_{client:03d}") for client in range(3)}


def central() -> dict[str, Any]:
    clients = ["client_000", "client_001", "client_002"]
    return {"clients": clients, "generation": 1, "parameters": policy(ParameterLayout(13, 4, 3), "central")}


def checkpoint_with(folder: Path, content: bytes, is_central: bool = False) -> Path:
    modules = folder / "learner_group" / "learner" / "rl_module" / ("central" if is_central else "")
    modules.mkdir(parents=True, exist_ok=True)
    (modules / "module_state.pkl").write_bytes(content)
    return folder


@pytest.mark.parametrize("state", [independent(), central()], ids=["independent", "central"])
def test_whole_ones_are_read_bit_for_bit(state: dict[str, Any], tmp_path: Path) -> None:
    checkpoint_with(tmp_path, pickle.dumps(state), "clients" in state)
    read = read_policies(tmp_path)
    assert pickle.dumps(read.state) == pickle.dumps(state)
    assert read.shape.clients == ("client_000", "client_001", "client_002")
    assert (read.shape.hidden_size, read.shape.central) == (4, "clients" in state)


def change_weight(to: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda state: next(iter(state.values())).update({"critic.2.bias": to})


NO_POLICY = "'client_00[01]' is no float32 policy of 4 hidden units"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_weight(np.zeros(1)), f"{NO_POLICY} and 5 inputs"),
        (change_weight(np.zeros((1, 1), np.float32)), NO_POLICY),
        (change_weight(np.full(1, np.nan, np.float32)), "'client_000' has weights that are not finite"),
        (change_weight(None), "AttributeError"),
        (lambda state: state["client_001"].pop("actor.0.bias"), NO_POLICY),
        (lambda state: state["client_001"].update(more=np.zeros(1)), NO_POLICY),
        (lambda state: state.update(client_001=policy(ParameterLayout(6, 4), "a")), NO_POLICY),
        (lambda state: state.update({7: state["client_000"]}), "its clients are"),
        (dict.clear, r"its clients are \[\]"),
    ],
)
def test_policies_that_are_not_whole_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    state = independent()
    change(state)
    with pytest.raises(ValueError, match=f"holds no policies: .*{message}"):
        read_policies(checkpoint_with(tmp_path, pickle.dumps(state)))


@pytest.mark.parametrize("clients", [[], ["a"], ["a", "a", "b"], "abc", [1, 2, 3], None, 3, ["a", ["b"], "c"]])
def test_a_central_network_of_other_clients_is_refused(clients: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds no policies"):
        read_policies(checkpoint_with(tmp_path, pickle.dumps({**central(), "clients": clients}), True))


VALUES = [None, True, "text", -1, 0.5, 10**400, float("nan"), [], {}, [[[]]], np.zeros(0), np.array("a"), b"bytes"]


@pytest.mark.parametrize("state", [independent(), central()], ids=["independent", "central"])
def test_every_entry_is_held_to_its_type(state: dict[str, Any], tmp_path: Path) -> None:
    inner = "parameters" if "clients" in state else "client_001"
    for path in [*((key,) for key in state), (inner, "actor.2.bias")]:
        for value in VALUES:
            changed = copy.deepcopy(state)
            node = changed[inner] if len(path) == 2 else changed
            node[path[-1]] = value
            with pytest.raises(ValueError, match="holds no policies") as refused:
                read_policies(checkpoint_with(tmp_path, pickle.dumps(changed), "clients" in state))
            assert "\n" not in str(refused.value) and len(str(refused.value)) < 900


@pytest.mark.filterwarnings("ignore:invalid escape sequence:DeprecationWarning")
def test_damaged_pickles_are_one_line_and_take_no_memory(tmp_path: Path) -> None:
    content, draw = pickle.dumps(independent()), random.Random(0)
    claims = [  # to remember something as number 2**28; an array of 2**40 bytes, and a frame of as many
        b"\x80\x04}r\x00\x00\x00\x10.",
        b"\x80\x05\x96\x00\x00\x00\x00\x01\x00\x00\x00abc.",
        b"\x80\x04\x95\x00\x00\x00\x00\x01\x00\x00\x00}.",
        b"(" * 100_000 + b"t.",
    ]
    flipped = []
    for _ in range(600):
        damaged = bytearray(content)
        for _ in range(draw.choice([1, 1, 8])):
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        flipped.append(bytes(damaged))
    cut = [content[: draw.randrange(len(content))] for _ in range(100)]
    before, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for damaged in [*claims, *cut, *flipped]:
        try:
            read_policies(checkpoint_with(tmp_path, damaged))
        except ValueError as error:
            refused += 1
            assert str(error).startswith(f"{policies_file(tmp_path)} holds no policies: ") and "\n" not in str(error)
    assert refused > len(claims) + len(cut)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB
