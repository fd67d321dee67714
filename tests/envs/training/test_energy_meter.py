"""Measured energy: what counters read, what it does to costs, and that the budget holds whatever is read."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from quick_federation import TINY, MeteredExecutor, quick

import envs
from envs.config import only_read
from envs.rules.churn import ChurnEvent
from envs.training import aggregation, energy_counters
from envs.training.actor_plan import ActorPlan, shared_meter
from envs.training.client_worker import ClientWorker
from envs.training.energy_meter import EnergyMeter, open_meter

FREQS = (700e6, 1500e6, 1500e6, 1500e6)


def counter(*readings):
    """Returns a function that returns these joules, one after the other."""
    return iter(readings).__next__


@pytest.fixture
def mine(monkeypatch):
    """Puts a function where ``energy_meter="my_meter:joules"`` finds it."""
    module = ModuleType("my_meter")
    monkeypatch.setitem(sys.modules, "my_meter", module)
    return lambda read_j: setattr(module, "joules", read_j)


def metered(**fields):
    return envs.parallel_env(**only_read(TINY | {"energy_meter": "my_meter:joules", "cpu_freq_hz": FREQS} | fields))


def upload_j(env):
    return envs.energy.upload_energy_j(env.num_parameters)


# --- Counters ---------------------------------------------------------------------------------------------------------


def powercap(folder, **zones):
    """Writes a folder laid out as Linux's; name, energy and range in microjoules by zone."""
    for zone, (name, energy_uj, range_uj) in zones.items():
        place = folder / f"intel-rapl:{zone.strip('_').replace('_', ':')}"
        place.mkdir(parents=True, exist_ok=True)
        for file, value in (("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", range_uj)):
            (place / file).write_text(f"{value}\n")


@pytest.fixture
def rapl(tmp_path, monkeypatch):
    """Returns ``powercap`` for the folder that is read."""
    monkeypatch.setattr(energy_counters, "POWERCAP", tmp_path)
    return lambda **zones: powercap(tmp_path, **zones)


def test_rapl_adds_packages_and_memory_and_counts_on_where_one_of_them_wraps(rapl):
    zones = {"_0_0": ("core", 5, 10**7), "_1": ("package-1", 0, 10**7), "_2": ("psys", 77, 10**9)}
    rapl(_0=("package-0", 9_000_000, 10**7), _0_1=("dram", 1_000_000, 4 * 10**6), **zones)
    meter, why = open_meter("rapl", "cpu")
    assert why == ""
    meter.start()
    rapl(_0=("package-0", 500_000, 10**7), _0_1=("dram", 3_000_000, 4 * 10**6))
    rapl(_0_0=("core", 999, 10**7), _1=("package-1", 250_000, 10**7), _2=("psys", 10**8, 10**9))
    assert meter.stop() == pytest.approx(1.5 + 2.0 + 0.25)  # package-0 wrapped at 10 J
    meter.start()
    rapl(_0_1=("dram", 500_000, 4 * 10**6))  # 4 - 3 + 0.5
    assert meter.stop() == pytest.approx(1.5)


@pytest.fixture
def fake_nvml(monkeypatch):
    """A GPU with a counter in millijoules, which is the second one of the machine."""
    nvml = ModuleType("pynvml")
    nvml.NVMLError = type("NVMLError", (Exception,), {})
    nvml.millijoules = {"GPU-b1": 5_000}
    nvml.nvmlInit = lambda: None
    nvml.NVML_DEVICE_MIG_ENABLE, nvml.mig_mode = 1, 0
    nvml.nvmlDeviceGetMigMode = lambda handle: [nvml.mig_mode, nvml.mig_mode]
    nvml.nvmlDeviceGetCount = lambda: len(nvml.millijoules)
    nvml.nvmlDeviceGetHandleByIndex = lambda index: sorted(nvml.millijoules)[index]
    nvml.nvmlDeviceGetHandleByUUID = lambda uuid: uuid
    nvml.nvmlDeviceGetTotalEnergyConsumption = lambda handle: nvml.millijoules[handle]
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="b1"))
    return nvml


def test_nvml_reads_the_gpu_that_trains_in_joules(fake_nvml):
    meter, why = open_meter("nvml", "cuda:0")
    assert why == ""
    meter.start()
    fake_nvml.millijoules["GPU-b1"] += 1_234
    assert meter.stop() == pytest.approx(1.234)


@pytest.mark.parametrize("has_own_uuid", [True, False])
def test_a_part_of_a_gpu_is_not_charged_for_the_whole_one(fake_nvml, has_own_uuid):
    def not_found(uuid):
        raise fake_nvml.NVMLError("Not Found")

    def not_supported(handle):
        raise fake_nvml.NVMLError("Not Supported")

    if has_own_uuid:
        fake_nvml.nvmlDeviceGetHandleByUUID = not_found
    fake_nvml.mig_mode = 1
    meter, why = open_meter("nvml", "cuda:0")
    assert meter is None and "MIG" in why and "costs are the formula's" in why
    fake_nvml.mig_mode = 0
    assert ("Not Found" in open_meter("nvml", "cuda:0")[1]) == has_own_uuid
    fake_nvml.nvmlDeviceGetMigMode = not_supported  # of a GPU that cannot be divided
    assert ("Not Found" in open_meter("nvml", "cuda:0")[1]) == has_own_uuid


@pytest.mark.parametrize(
    ("file", "content", "named"),
    [
        *(("energy_uj", content, "whole number") for content in ("", "n/a\n", "-1\n", "\xb2\n", "9" * 5000, "1 2\n")),
        *(("max_energy_range_uj", content, "whole number") for content in ("", "1.5\n")),
        ("max_energy_range_uj", "4", "energy_uj holds 5, .*4"),
        ("max_energy_range_uj", "0", "max_energy_range_uj holds 0"),
    ],
)
def test_a_counter_whose_files_cannot_be_right_is_named_in_a_line(rapl, tmp_path, file, content, named):
    rapl(_0=("package-0", 5, 10))
    (tmp_path / "intel-rapl:0" / file).write_text(content, encoding="utf-8")
    meter, why = open_meter("rapl", "cpu")
    assert meter is None and f"{tmp_path}/intel-rapl:0/" in why and re.search(named, why)
    assert why.isprintable() and len(why) < 300 and "costs are the formula's" in why


def test_what_cannot_be_read_is_named_in_a_line(rapl, monkeypatch, fake_nvml):
    def fails(error):
        def raises(*anything):
            raise error

        return raises

    def check(name, device, part):
        meter, why = open_meter(name, device)
        assert meter is None and "costs are the formula's" in why and part in why and "\n" not in why

    fake_nvml.nvmlDeviceGetTotalEnergyConsumption = fails(fake_nvml.NVMLError("Not Supported"))
    check("nvml", "cuda:0", "NVML says Not Supported")
    check("nvml", "cpu", "no NVIDIA GPU")
    check("rapl", "cpu", "no processor package")
    check("rapl", "cuda", "reads the processor")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    check("nvml", "cuda:0", "pip install")
    rapl(_0=("package-0", 1, 10))
    monkeypatch.setattr(energy_counters._Zone, "_now_uj", fails(PermissionError(13, "Permission denied")))
    check("rapl", "cpu", "a+r")


@pytest.mark.parametrize(
    ("readings", "message"),
    [
        ((math.nan,), "^what energy_meter m returned is nan"),
        ((1.0, math.inf), "is inf"),
        ((-1.0,), r"is -1\.0"),
        (("much",), "is 'much'"),
        ((5.0, 3.0), "^energy_meter m went from 5 to 3 J"),
        ((0.0, 1e300), r"went from 0 to 1e\+300 J"),
        ((), "^energy_meter m cannot be read: StopIteration"),
    ],
)
def test_a_reading_that_is_none_is_one_clear_error(readings, message):
    meter = EnergyMeter("m", counter(*readings))
    with pytest.raises(ValueError, match=message):
        meter.start(), meter.stop()


def test_a_meter_for_several_trainings_at_once_is_refused():
    from envs.training.ray_executor import RayExecutor

    assert "4 clients would train at once" in shared_meter("rapl", 4, 0.0)
    assert "each training would have 0.333" in shared_meter("nvml", 1, 1 / 3)
    free = [("rapl", 1, 0.0), ("nvml", 4, 1.0), ("nvml", 4, 2.0), ("nvml", 4, 0.0), ("formula", 9, 0.1)]
    assert [shared_meter(*each) for each in [*free, ("my_meter:joules", 9, 0.1)]] == [None] * 6
    for meter, plan in (("rapl", ActorPlan(2, 1.0, 0.0)), ("nvml", ActorPlan(1, 1.0, 0.5))):
        with pytest.raises(ValueError, match=r"^energy_meter .*num_actors=1 .*gpus_per_actor=1"):
            RayExecutor(envs.FederationConfig(energy_meter=meter), plan)


# --- Costs ------------------------------------------------------------------------------------------------------------


def test_clients_report_what_their_last_training_took(mine):
    # Round 0 trains all four for one epoch: 1, 2, 3 and 4 J. Afterwards 8 J for two epochs of client 0.
    mine(counter(*itertools.accumulate([0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0, 8.0])))
    env = metered(local_epochs=2, budget_share=0.6)
    _, infos = env.reset(seed=1)
    sent_j = upload_j(env)
    reported = [info["cost"] for info in infos.values()]
    assert reported == pytest.approx([2 + sent_j, 4 + sent_j, 6 + sent_j, 8 + sent_j])
    assert env.budget_j == pytest.approx(0.6 * sum(reported)) and env.budget_j == infos["client_000"]["budget"]
    assert env.warmup_energy_j == pytest.approx(quick(cpu_freq_hz=FREQS).warmup_energy_j)
    observations, _, _, _, infos = env.step({"client_000": 1})
    done = env.last_round
    assert (done.energy_j, done.measured_j) == (pytest.approx(2 + sent_j), pytest.approx(8.0))
    assert [info["cost"] for info in infos.values()] == pytest.approx([8 + sent_j, *reported[1:]])
    assert observations["client_000"][3] == pytest.approx((8 + sent_j) / env.budget_j)
    env.step({})
    assert env.last_round.measured_j is None


def test_probing_and_credit_follow_the_meter_and_so_do_clients_not_read_yet(mine):
    mine(itertools.count().__next__)  # a joule for each training
    churn = {"churn": (ChurnEvent(1, 3, "join"),)}
    env = metered(probing_epochs=0.5, reward="leave_one_out", credit_clients=1, budget_j=5.0, **churn)
    _, infos = env.reset(seed=1)
    formula = quick(cpu_freq_hz=FREQS).costs_j - upload_j(env)
    assert infos["client_000"]["budget"] == pytest.approx(5.0 - 0.5 * 3)
    assert infos["client_000"]["cost"] == pytest.approx(1.0 + 0.5 + upload_j(env))
    infos = env.step({})[-1]
    scale = 3.0 / formula[:3].sum()
    assert infos["client_003"]["cost"] - 0.5 - upload_j(env) == pytest.approx(scale * formula[3], abs=0.5)
    assert env.costs_j[3] - env.costs_j[0] == pytest.approx(scale * formula[3] - 1.0)


def test_the_first_training_warms_up_unread_and_changes_nothing(mine, monkeypatch):
    mine(itertools.count().__next__)
    fitted, fit = [], ClientWorker._fit
    monkeypatch.setattr(
        ClientWorker, "_fit", lambda self, client, *work: fitted.append(client) or fit(self, client, *work)
    )
    env, plain = metered(budget_j=math.inf), metered(budget_j=math.inf, energy_meter="formula")
    for each in (env, plain):
        each.reset(seed=3)
        each.step({"client_001": 1, "client_003": 1})
    assert (fitted[:7], fitted[7:]) == ([0, 0, 1, 2, 3, 1, 3], [0, 1, 2, 3, 1, 3])
    assert env.last_round.measured_j == 2.0
    assert torch.equal(env.get_state()["weights"], plain.get_state()["weights"])
    assert plain.get_state()["metered_epoch_j"] is None and plain.last_round.measured_j is None


def test_a_restored_run_charges_what_was_read_before(mine):
    mine(itertools.accumulate(itertools.count()).__next__)
    env, other = metered(), metered()
    env.reset(seed=1)
    env.step({"client_000": 1})
    other.set_state(env.get_state())
    assert other.budget_j == env.budget_j != metered().budget_j
    assert other.costs_j.tolist() == env.costs_j.tolist()
    mine(itertools.count().__next__)
    other.step({"client_001": 1})
    assert other.last_round.energy_j == env.costs_j[1]


def test_a_budget_in_joules_is_compared_with_what_was_read(mine):
    mine(itertools.count().__next__)  # the formula's costs are far below 0.9 J
    for fields in ({"budget_j": 0.9}, {"budget_j": 1e-9, "energy_meter": "rapl"}):
        with pytest.raises(ValueError, match="is below the cheapest client"):
            metered(**fields).reset(seed=1)


def test_without_a_counter_the_formula_is_used_and_a_line_says_so(rapl, caplog):
    env, plain = metered(energy_meter="rapl"), metered(energy_meter="formula")
    for each in (env, plain):
        each.reset(seed=1)
        each.step({"client_000": 1})
    assert [record.getMessage() for record in caplog.records] == [open_meter("rapl", "cpu")[1]]
    assert env.last_round == plain.last_round and env.last_round.measured_j is None


class FailsOnce:
    """Counts a joule a call; the calls with these numbers fail."""

    def __init__(self, *failing):
        self._failing, self._calls = failing, itertools.count()

    def __call__(self):
        if (call := next(self._calls)) in self._failing:
            raise TimeoutError("no answer")
        return float(call)


@pytest.mark.parametrize("failing", [(8,), (9,), (8, 9)])
def test_a_missing_reading_leaves_the_client_what_it_reported(mine, caplog, failing):
    mine(FailsOnce(*failing, 12, 13))  # round 0 takes calls 0 to 7; the other two are of round 2
    env = metered(reward="leave_one_out")
    _, infos = env.reset(seed=1)
    before = {agent: info["cost"] for agent, info in infos.items()}
    env.step({"client_001": 1, "client_003": 1})
    assert env.costs_j.tolist() == list(before.values())
    assert env.last_round.trained == (1, 3) and env.last_round.measured_j is None
    env.step({"client_002": 1})
    env.step({"client_002": 1})
    assert env.last_round.measured_j == 1.0
    (message,) = [record.getMessage() for record in caplog.records]
    assert re.search(r"my_meter:joules .*TimeoutError: no answer\) while client_001 trained in round 1;", message)


def test_a_function_that_fails_at_its_first_call_ends_the_run_and_drops_no_client(mine):
    mine(FailsOnce(0))
    with pytest.raises(ValueError, match=r"^energy_meter my_meter:joules cannot be read: TimeoutError: no answer"):
        metered(on_client_failure="drop").reset(seed=1)


def test_without_a_reading_in_round_0_costs_are_the_formulas_throughout(rapl, tmp_path, caplog):
    rapl(_0=("package-0", 5, 10**7))
    env, plain = metered(energy_meter="rapl"), metered(energy_meter="formula")
    env._federation._get_executor(1)  # opens the meter
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("")
    for each in (env, plain):
        each.reset(seed=1)
    assert "energy_uj holds ''" in caplog.text and "client_000 and 3 more trained in round 0" in caplog.text
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("5")
    for each in (env, plain):
        each.step({"client_000": 1})
    assert (env.costs_j.tolist(), env.budget_j) == (plain.costs_j.tolist(), plain.budget_j)


def test_a_meter_that_counts_nothing_is_named_once(mine, caplog):
    mine(lambda: 5.0)
    env = metered()
    env.reset(seed=1)
    env.step({"client_000": 1})
    (message,) = [record.getMessage() for record in caplog.records]
    assert env.last_round.meter_warnings == (message,)
    env.step({"client_000": 1})
    assert env.last_round.meter_warnings == ()
    assert "my_meter:joules counted nothing while client_000 and 3 more" in message
    assert env.costs_j.tolist() == [upload_j(env)] * 4 and env.last_round.measured_j == 0.0


def test_frequencies_cannot_change_where_costs_are_measured(mine):
    mine(itertools.count().__next__)
    with pytest.raises(ValueError, match=r"^device_changes .*energy_meter='my_meter:joules'"):
        metered(device_changes=(envs.DeviceChange(2, 0, 3e9),))
    env = metered()
    env.reset(seed=1)
    before = env.get_state()["cpu_freq_hz"].tolist()
    with pytest.raises(ValueError, match=r"^set_cpu_freq_hz .*energy_meter"):
        env.set_cpu_freq_hz(0, 9e9)
    assert env.get_state()["cpu_freq_hz"].tolist() == before


@pytest.mark.parametrize(
    ("name", "message"),
    [("watts", "formula, nvml, rapl"), ("my_meter:joule", "did you mean joules"), ("my_meter:joules", "names a float")],
)
def test_names_that_are_no_meters_are_refused_before_anything_is_trained(mine, name, message):
    mine(5.0)
    with pytest.raises(ValueError, match=f"^energy_meter .*{message}"):
        metered(energy_meter=name)


def test_actors_read_as_this_process_does(any_executor):
    env = metered(energy_meter="time:perf_counter", budget_j=math.inf)
    env.reset(seed=1)
    assert (env.get_state()["metered_epoch_j"] > 0).all()
    env.step({"client_001": 1, "client_002": 1})
    assert env.last_round.measured_j == pytest.approx(env.get_state()["metered_epoch_j"][1:3].sum())


class BreaksOff(MeteredExecutor):
    """Client 0's training breaks off at once after round 0, so that its meter reads next to nothing."""

    def train_each(self, weights, clients, key, epochs):
        updates = super().train_each(weights, clients, key, epochs)
        if key.round and 0 in updates:
            failed = aggregation.without(aggregation.ClientFailure(0, "memory"), weights)
            updates[0] = dataclasses.replace(failed, readings_j=((0, 1e-9),))
        return updates


def test_a_training_that_breaks_off_makes_no_client_cheap(mine):
    mine(counter())
    env = quick(BreaksOff, energy_meter="my_meter:joules", cpu_freq_hz=FREQS, on_client_failure="drop")
    _, infos = env.reset(seed=7)
    before = infos["client_000"]["cost"]
    _, _, _, _, infos = env.step({agent: int(agent == "client_000") for agent in env.agents})
    assert infos["client_000"]["failed"] and infos["client_000"]["cost"] == before
    assert env.last_round.measured_j == 1e-9
