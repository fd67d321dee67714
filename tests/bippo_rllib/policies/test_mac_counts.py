"""MACs of selection and training: on the real modules, and in golden values."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from row_factory import frame, make_rows, write_trial

from bippo_rllib import BippoConfig
from bippo_rllib.baselines.central.policy import CentralPolicy
from bippo_rllib.policies.client_policy import ClientPolicy
from bippo_rllib.policies.macs import central_policy_macs, count_macs, policy_macs
from envs.training.models import build_model, num_parameters
from experiments.report import command, macs
from experiments.report.merged import read_results
from experiments.report.tables import power_of_ten
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, SelectorNetwork, write_run_info

RECORD = FederationRecord(
    ["a"], 5, ModelRecord("cnn", 1, 1000), [ClientRecord(c, {"0": 10 + c}, 7e8, 1.0) for c in (0, 1)]
)


def _counted(module: ClientPolicy | CentralPolicy, inputs: int) -> int:
    example = torch.zeros(1, inputs)
    return count_macs(module.actor, example) + count_macs(module.critic, example)


def test_real_modules_cost_what_the_closed_forms_say() -> None:
    spaces = {"observation_space": gym.spaces.Box(-np.inf, np.inf, (5,)), "action_space": gym.spaces.Discrete(2)}
    model = {"hidden_size": 128, "seed": 0}
    own = ClientPolicy(**spaces, model_config={**model, "policy_id": "client_000"})
    # Actor 5*128 + 128*2 = 896, critic 5*128 + 128*1 = 768.
    assert _counted(own, 5) == policy_macs() == 896 + 768 == 1664
    for num_clients, expected in ((20, 23_424), (48, 55_680), (1000, 1_152_384)):
        central = CentralPolicy(**spaces, model_config={**model, "shared_observations": 1})
        central.set_clients([f"client_{client:04d}" for client in range(num_clients)])
        assert _counted(central, central.layout.obs_dim) == central_policy_macs(num_clients) == expected


def test_a_convolution() -> None:
    # 3 input channels, 8 output channels, 3x3 kernel, 10x10 outputs.
    assert count_macs(torch.nn.Conv2d(3, 8, 3, padding=1), torch.zeros(1, 3, 10, 10)) == 3 * 8 * 9 * 100


@pytest.mark.parametrize(
    ("model", "shape", "expected"),
    [
        ("cnn", (1, 28, 28), (431_080, 2_293_000)),
        ("resnet18", (3, 32, 32), (11_173_962, 555_422_720)),  # the paper's
        # 32*32 * 27 * 16 + 16*16 * 144 * 32 + 8*8 * 288 * 64 + 1,024 * 10
        ("cnn_small_color", (3, 32, 32), (33_834, 2_811_904)),
    ],
)
def test_federated_models(model: str, shape: tuple[int, ...], expected: tuple[int, int]) -> None:
    built = build_model(model, shape, 10).eval()
    assert (num_parameters(built), count_macs(built, torch.zeros(1, *shape))) == expected


def test_a_round_of_each_kind_of_method() -> None:
    # Client 1 (11 samples) in every round. 4 clients: central 128 * (2 * 17 + 4 + 1) = 4,992 a pass.
    rows = frame(make_rows([0.5] * 2, clients=[0, 1, 2, 3]))
    networks = SelectorNetwork(False, 8, 128, True), SelectorNetwork(True, 8, 128, True), None
    bippo, fppo, poc = (macs.round_macs(rows, RECORD, network) for network in networks)
    assert (bippo[macs.PASS], bippo[macs.RL], bippo[macs.FL]) == (1664, 3 * 8 * 1664, 3 * 1000 * 11 * 5)
    assert (fppo[macs.PASS], fppo[macs.RL]) == (4992, 3 * 8 * 4992)
    assert (poc[macs.PASS], poc[macs.RL], poc[macs.FL]) == (None, None, bippo[macs.FL])


def test_training_scales_with_participants_and_settings() -> None:
    all_train, one_trains = frame(make_rows([0.5], num_trained=2, trained=[0, 1])), frame(make_rows([0.5]))
    network = SelectorNetwork(central=False, epochs=2, hidden_size=64, critic=True)
    both, one = (macs.round_macs(rows, None, network) for rows in (all_train, one_trains))
    assert both[macs.RL] == 2 * one[macs.RL] == 2 * 3 * 2 * policy_macs(hidden_size=64)
    assert one[macs.FL] is None


def test_the_command_prints_what_networks_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--macs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| 20 | 1,664 | 23,424 | 14.1× | 798,720 | 79,872 | 1,124,352 |"
    assert lines[-1] == "| 1,000 | 1,664 | 1,152,384 | 692.5× | 39,936,000 | 3,993,600 | 2,765,721,600 |"
    assert power_of_ten(8.33e12) == "8.3·10¹²"


def test_networks_of_a_search_are_counted_by_setting(tmp_path: Path) -> None:
    for size in (32, 64):
        write_trial(tmp_path, make_rows([0.5] * 2, "bippo", setting=f"hidden_size={size}"))
    networks = {"bippo": [SelectorNetwork(False, 8, size, size == 32) for size in (32, 64)]}
    draws = [{"hidden_size": "32"}, {"hidden_size": "64"}]
    search = {"search": {"hidden_size": "choice([32, 64])"}, "draws": draws, "networks": networks}
    write_run_info(tmp_path, RunInfo("digits", 0.8, 2, {}, ["bippo"], [7], **search))
    expected = {policy_macs(hidden_size=32), policy_macs(hidden_size=64, critic=False)}
    assert set(macs.macs_table(read_results([tmp_path]))[macs.PASS]) == expected


def test_networks_of_a_users_own_method_are_those_of_its_record(tmp_path: Path) -> None:
    for method in ("mine.turn", "mine.small", "mine.central", "mine.older"):
        write_trial(tmp_path, make_rows([0.5] * 2, method))
    small, central = SelectorNetwork(False, 4, 32, False), SelectorNetwork(True, 8, 128, True)
    networks = {"mine.turn": [None], "mine.small": [small], "mine.central": [central]}
    methods = ["mine.turn", "mine.small", "mine.central", "mine.older"]
    write_run_info(tmp_path, RunInfo("digits", 0.8, 2, {}, methods, [7], networks=networks))
    table = macs.macs_table(read_results([tmp_path])).set_index("method")[[macs.PASS, macs.RL]].dropna()
    passes = policy_macs(hidden_size=32, critic=False), central_policy_macs(2)
    assert table.T.to_dict("list") == {
        "mine.small": [passes[0], 3 * 4 * passes[0]],
        "mine.central": [passes[1], 3 * 8 * passes[1]],
    }


def test_the_table_counts_the_epochs_of_the_algorithm() -> None:
    assert BippoConfig().num_epochs == macs.RL_EPOCHS
