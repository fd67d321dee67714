"""A selector's file: what is saved can be loaded; what is damaged is refused in one line, and costs no memory."""

from __future__ import annotations

import copy
import inspect
import random
import resource
import shutil
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_selector import read_file, toy_reports, toy_selector, used_selector, write_file

from bippo_rllib import BudgetSampler, ClientSelector, Reward
from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.federated import selector_file, selector_settings
from bippo_rllib.federated.ranking import ReportRanking, RuleRanking
from bippo_rllib.federated.selector_fields import FIELDS
from bippo_rllib.learning.ppo_update import PPOSettings
from bippo_rllib.selection.representativeness import Prior
from bippo_rllib.selection.update_matching import UpdateMatching


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    file = tmp_path_factory.mktemp("good") / "selector.safetensors"
    used_selector(matching=UpdateMatching(length_penalty=0.25)).save(file)
    return file


#: Each as after a few rounds once a selector has used it.
RANKINGS = [lambda: ReportRanking("accuracy", False), lambda: RuleRanking(Cyclic(1)), lambda: RuleRanking(Oort(1))]


def loaded_or_refused(file: Path) -> ClientSelector | None:
    """Returns the selector, which works; None where the file is refused in one line."""
    try:
        selector = ClientSelector.load(file)
    except ValueError as error:
        assert str(error).startswith(str(file.parent)) and "\n" not in str(error) and len(str(error)) < 900
        return None
    try:
        selector.select({**toy_reports(trained=["client_001"]), "new": toy_reports()["client_000"]}, 2.0)
    except ValueError as error:
        assert "\n" not in str(error)
    return selector


@pytest.mark.parametrize(
    "make",
    [
        used_selector,
        lambda: used_selector(prior=Prior("accuracy", -1.5, 0.0, only_lowers=True)),
        toy_selector,
        lambda: toy_selector(0),
        lambda: used_selector(prior=None, reward=None, explore=False, trains=["client_001"]),
        lambda: used_selector(matching=UpdateMatching(length_penalty=0.0)),
        lambda: used_selector(1, matching=UpdateMatching("drift", size_key="num_samples")),
        *(lambda ranking=r: used_selector(ranking=ranking(), strategy="greedy", prior=None) for r in RANKINGS),
        lambda: used_selector(reward=Reward("accuracy_target", 3.0, 0.9), strategy="epsilon_greedy"),
        lambda: used_selector(settings=PPOSettings(vf_clip_param=1.0, grad_clip=0.5, use_critic=False)),
    ],
)
def test_what_is_saved_is_loaded_to_the_last_bit(make, tmp_path):
    make().save(tmp_path / "one")
    loaded = ClientSelector.load(tmp_path / "one")
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert loaded.select(toy_reports(), 2.0) == make().select(toy_reports(), 2.0)


#: What takes the place of each entry: none of these is what is there.
VALUES = [
    *(None, True, "", "../../etc/passwd", "os:system", "\ud800", "a\nb", [], [1], ["a", "a"], {}, {"a": {"b": []}}),
    *(0, -1, 0.5, 2**31, 10**9, 2**64, 10**400, -1e300, float("nan"), float("inf")),
    list(range(1000)),
]


def entries_of(node: Any, at: tuple = ()) -> list[tuple]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, value in items for place in [(*at, key), *entries_of(value, (*at, key))]]


@pytest.mark.parametrize("entry", [None, "ranking", "cyclic", "oort"])
def test_every_entry_of_the_record_is_held_to_its_type_and_range(good, tmp_path, caplog, entry):
    """All of a selector with a prior and update matching, and a ranking's of one that has it."""
    if entry is not None:
        ranking = RANKINGS[["ranking", "cyclic", "oort"].index(entry)]()
        used_selector(ranking=ranking, strategy="greedy", prior=None).save(good := tmp_path / "ranked")
    record, arrays = read_file(good)
    before, refused, places = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0, entries_of(record)
    places = [place for place in places if entry in (None, place[0])]
    for place in places:
        for value in ["dropped", *VALUES]:
            changed = copy.deepcopy(record)
            node = changed
            for key in place[:-1]:
                node = node[key]
            if value == "dropped":
                del node[place[-1]]
            else:
                node[place[-1]] = value
            write_file(tmp_path / "file", changed, arrays)
            refused += loaded_or_refused(tmp_path / "file") is None
    tried = len(places) * (1 + len(VALUES))
    assert tried > (1000 if entry is None else 40) and refused > 0.75 * tried
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB


def test_flipped_bits_and_cut_off_files_are_refused(good, tmp_path):
    content, draw = good.read_bytes(), random.Random(0)
    header = 8 + int.from_bytes(content[:8], "little")
    for number in range(300):
        damaged = bytearray(content)
        for _ in range(draw.choice([1, 1, 8])):
            damaged[draw.randrange(header if number % 3 else len(content))] ^= 1 << draw.randrange(8)
        (tmp_path / "file").write_bytes(damaged if number % 4 else content[: draw.randrange(len(content))])
        loaded = loaded_or_refused(tmp_path / "file")
        assert number % 4 or loaded is None


@pytest.mark.parametrize(
    ("record", "message"),
    [
        *((text, "cut off") for text in ("", "null", "[" * 100_000, '{"a":' * 100_000, "9" * 5000, "{}")),
        ('{"version": 1}', "has format 1; .* reads 4"),
        ('{"version": "4"}', "version is '4'|lacks"),
        ('{"version": 4}', "is damaged: the record lacks batch_size"),
        ('{"version": 4, "refused": "why\\nnot", "steps": 0}', "why not$"),
        ('{"version": 4, "refused": ["why"], "steps": 0}', "is damaged: refused is"),
    ],
)
def test_a_record_that_is_none_is_refused(good, tmp_path, record, message):
    write_file(tmp_path / "file", record, read_file(good)[1])
    with pytest.raises(ValueError, match=message):
        ClientSelector.load(tmp_path / "file")
    assert loaded_or_refused(tmp_path / "file") is None


def edited(good, file, change):
    """Writes the file with what ``change`` does to its record and arrays."""
    record, arrays = read_file(good)
    change(record, arrays)
    write_file(file, record, arrays)
    return file


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda record, arrays: arrays.pop("adam.steps"), "lacks adam.steps"),
        (lambda record, arrays: arrays.update(more=np.zeros(1)), "'more'"),
        (lambda record, arrays: record["policy_ids"].pop(), r"actor.0.weight .*\[3, 4, 5\]; expected \[2,"),
        (lambda record, arrays: record.update(policy_ids=["a"] * 3), "policy_ids is"),
        (lambda record, arrays: record.update(batch_size=2**31), "batch_size is 2147483648"),
        (lambda record, arrays: record.update(batch_size=999), r"expected F32 \[3, 999, 5\]"),
        (lambda record, arrays: record["prior"]["clients"].pop(), r"prior.sums is F64 of shape \[3\]"),
        (lambda record, arrays: record["matching"].update(profile_size=None), r"matching.profiles is F64 of shape"),
        (lambda record, arrays: arrays["matching.profiles"].fill(np.inf), "matching.profiles has numbers"),
        (lambda record, arrays: record["last_policy_ids"].append("z"), r"last.observations is F32 of shape \[3, 5\]"),
        (lambda record, arrays: arrays["actor.0.weight"].fill(np.nan), "actor.0.weight .*not finite"),
        (lambda record, arrays: arrays["adam.exp_avg_sq"].fill(-1), "adam.exp_avg_sq has numbers"),
        (lambda record, arrays: arrays["buffer.counts"].fill(2), "buffer.counts has numbers"),
        (lambda record, arrays: arrays.update({"adam.steps": np.ones(3, np.int32)}), r"adam.steps is I32 .*I64 \[3\]"),
    ],
)
def test_what_is_wrong_is_named(good, tmp_path, change, named):
    file = edited(good, tmp_path / "file", change)
    with pytest.raises(ValueError, match=rf"^{file} is damaged: .*{named}"):
        ClientSelector.load(file)


@pytest.mark.parametrize(("hidden", "batch"), [(4, 10**6), (10**7, 2)])
def test_a_file_without_policies_cannot_ask_for_gigabytes_either(tmp_path, hidden, batch):
    """Its arrays hold no numbers, so that their shapes may claim any size; the first new client would get it."""
    toy_selector(0, obs_dim=100, prior=None).save(tmp_path / "file")
    record, arrays = read_file(tmp_path / "file")
    sizes = {4: hidden, 2: batch}
    record["batch_size"] = batch
    for name in [name for name in arrays if name.startswith("actor.0" if hidden != 4 else "buffer.")]:
        arrays[name] = np.zeros([sizes.get(size, size) for size in arrays[name].shape], arrays[name].dtype)
    write_file(tmp_path / "file", record, arrays)
    with pytest.raises(ValueError, match="takes more than 100000000 numbers"):
        ClientSelector.load(tmp_path / "file")


@pytest.fixture
def trial(good, tmp_path):
    """Writes a checkpoint of a trial's folder, which it returns."""

    def write(number, **changes):
        (tmp_path / f"checkpoint_{number:06d}").mkdir(exist_ok=True)
        file = tmp_path / f"checkpoint_{number:06d}" / selector_file.SELECTOR_FILE
        edited(good, file, lambda record, arrays: record.update(changes))
        return tmp_path

    return write


def test_a_file_of_another_format_is_named_as_such_in_a_trials_folder_too(trial):
    trial(1, version=4)
    with pytest.raises(ValueError, match=r"has format 1; .* reads 4"):
        ClientSelector.load(trial(2, version=1))


def test_a_damaged_checkpoint_is_passed_over_and_a_refusal_is_not(trial):
    """The newest one counts, and the refusal of a trial that has diverged since names it."""
    trial(1, steps=4)
    folder = trial(2, steps=9)
    assert ClientSelector.load(folder)._parts.steps == 9
    trial(2, explore="yes")
    assert ClientSelector.load(folder)._parts.steps == 4
    newest = folder / "checkpoint_000002" / selector_file.SELECTOR_FILE
    newest.write_bytes(selector_file.pack_refusal("it diverged", steps=9))
    with pytest.raises(ValueError, match="checkpoint_000002: it diverged"):
        ClientSelector.load(folder)
    shutil.rmtree(newest.parent)
    assert ClientSelector.load(folder)._parts.steps == 4


class Own(BudgetSampler):
    """A custom sampler, whose state a file does not know."""


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda parts: setattr(parts, "sampler", Own()), "the sampler is a Own"),
        (lambda parts: parts.trainer.policies.flat.fill_(np.nan), "actor.0.weight .*not finite"),
        (lambda parts: setattr(parts, "settings", replace(parts.settings, num_epochs=10**9)), "num_epochs is 10+$|10+"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved_and_the_last_file_stays(good, tmp_path, spoil, named):
    file = tmp_path / "file"
    shutil.copy(good, file)
    selector = ClientSelector.load(file)
    spoil(selector._parts)
    with pytest.raises(ValueError, match=named):
        selector.save(file)
    assert file.read_bytes() == good.read_bytes() and list(tmp_path.iterdir()) == [file]


def test_a_custom_sampler_selects_and_update_matching_needs_odds(good, tmp_path):
    selector = ClientSelector.load(good, sampler=Own("odds", seed=0))
    assert sorted(selector.select(toy_reports(), 9.0)) == sorted(toy_reports())
    with pytest.raises(ValueError, match=r"strategy is 'greedy'.*'odds'"):
        ClientSelector.load(good, sampler=BudgetSampler("greedy"))
    edited(good, tmp_path / "file", lambda record, arrays: record["sampler"].update(strategy="random"))
    assert loaded_or_refused(tmp_path / "file") is None


def test_the_table_knows_every_setting():
    """Of a sampler but its seed, whose generator is in the file."""
    sampler = [name for name in inspect.signature(BudgetSampler).parameters if name != "seed"]
    assert list(FIELDS["sampler"]) == list(selector_settings.SAMPLER) == sampler
    assert set(FIELDS["settings"]) == {field.name for field in fields(PPOSettings)}
    assert list(FIELDS["reward"].table) == [field.name for field in fields(Reward)]
    prior = [field.name for field in fields(Prior) if field.name != "record"]
    matching = inspect.signature(UpdateMatching).parameters
    assert list(FIELDS["matching"].table)[:4] == list(selector_settings.MATCHING) == list(matching)
    assert list(FIELDS["prior"].table) == [*prior, "clients"] == [*selector_settings.PRIOR, "clients"]
