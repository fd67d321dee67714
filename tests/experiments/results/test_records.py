"""Records of studies, which may be anybody's: nothing they name is imported unasked, and all they hold is checked."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import pytest
from record_mutations import mutated

from envs.imports import OWN_CODE_FIELDS
from experiments import tune_bippo
from experiments.cli import one_line
from experiments.results.run_info import RunInfo, as_written, write_run_info
from experiments.scenarios import SCENARIOS
from experiments.study.arguments import parser, study_of
from experiments.study.resume import study_to_resume


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command runs in an empty folder, as `python -m` does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def record_that_names(folder: Path, **changes: object) -> Path:
    """A run.json as somebody may have been sent it."""
    federation = {**as_written(dict(SCENARIOS["digits"].federation)), **changes.pop("federation", {})}  # type: ignore[dict-item]
    values = {"scenario": "digits", "target_accuracy": 0.8, "rounds": 5, "methods": ["fedavg"], "seeds": [7], **changes}
    folder.mkdir()
    write_run_info(folder, RunInfo(federation=federation, **values))  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize("flag", ["--resume", "--config"])
@pytest.mark.parametrize(
    ("named", "listed"),
    [
        ({"methods": ["trap:make", "fedavg"]}, "--methods trap:make"),
        ({"methods": ["trap:make"]}, "--methods trap:make"),
        *(
            ({"settings": {f"env.{name}": "trap:make"}, "federation": {name: "trap:make"}}, f"env.{name}=trap:make")
            for name in OWN_CODE_FIELDS
        ),
        (
            {
                "search": {"env.model": "choice(['digits_cnn', 'trap:make'])"},
                "draws": [{"env.model": "'digits_cnn'"}, {"env.model": "'trap:make'"}],
            },
            "env.model=trap:make",
        ),
        ({"search": {"env.model": "choice(['trap:make'])"}, "num_samples": 2}, "env.model=trap:make"),
    ],
)
def test_code_that_a_record_names_is_listed_and_imported_only_if_it_is_trusted(
    named: dict[str, object], listed: str, flag: str, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("trap.py").write_text("open('sprung', 'w').close()\nmake = 1\n")
    record = record_that_names(Path("gift").absolute(), **named)
    again = [flag, str(record), *([] if flag == "--resume" else ["--results-dir", "out"])]
    try:
        assert tune_bippo.main(again) == 2
        said = f"error: {record} names code that would be imported and run: {listed}. If you know that code, add "
        assert capsys.readouterr().err == f"{said}--trust-code\n"
        assert not Path("sprung").exists() and not Path("out").exists()
        assert tune_bippo.main([*again, "--trust-code"]) == 2  # whatever was asked for, it is no function
        assert Path("sprung").exists()
        out, err = capsys.readouterr()
        assert out.startswith(f"run.json names code, which is trusted: {listed}\n") and any(
            text in err for text in ("'int' object is not callable", "; name a function", "an int;", "no int")
        )
    finally:
        sys.modules.pop("trap", None)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"settings": {"env_config": {"dataset": "os:system"}}}, "--set env_config: use env. and a field of envs."),
        ({"settings": {"env": "os:system"}}, "--set env: use --scenario for this one"),
        ({"settings": {"env.data_dir": "/"}}, "--set env.data_dir: use --data-dir for this one"),
        ({"search": {"lr": "__import__('os').system('x')"}}, "expected one of Tune's functions"),
        ({"search": {"lr": "choice([1])"}, "draws": [{"env.model": "'os:system'"}]}, "a draw has env.model, but the"),
        ({"methods": ["../elsewhere"]}, "--methods is '../elsewhere'; it must be MODULE"),
        ({"methods": ["../elsewhere:make"]}, "--methods is '../elsewhere:make'; it must be MODULE"),
    ],
)
def test_a_record_says_nothing_that_could_not_be_typed(
    named: dict[str, object], message: str, here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    record = record_that_names(Path("gift"), **named)
    for arguments in (["--config", str(record), "--results-dir", "out"], ["--resume", str(record), "--force"]):
        assert tune_bippo.main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert message in line and not Path("out").exists()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_a_record_holds_is_taken_or_refused_in_one_line(seed: int, tmp_path: Path) -> None:
    """At once, and before anything is imported, made or started."""
    rng = random.Random(seed)
    digits, churn, mine = SCENARIOS["digits"], SCENARIOS["churn"], {"env.model": "nowhere:build"}
    for number, changes in enumerate(
        (
            {"settings": {"lr": 0.1, "env.lr": 0.3}, "federation": {**digits.federation, "lr": 0.3}},
            {"search": {"lr": "choice([0.1, 0.2])"}, "draws": [{"lr": "0.1"}, {"lr": "0.2"}], "methods": ["bippo"]},
            {"search": {"lr": "choice([0.1, 0.2])"}, "num_samples": 2, "methods": ["bippo"]},
            {"scenario": "churn", "rounds": 60, "federation": churn.federation_for(60)},
            {"methods": ["nowhere:f"], "settings": mine, "federation": mine},
        )
    ):
        record = record_that_names(tmp_path / f"study {number}", **changes)
        written = json.loads((record / "run.json").read_text())
        for _ in range(15):
            (record / "run.json").write_bytes(mutated(written, rng))
            arguments = [["--resume", str(record)], ["--config", str(record), "--results-dir", str(tmp_path / "new")]]
            argv = [*rng.choice(arguments), *rng.sample(["--force", "--trust-code"], rng.randrange(3))]
            try:
                study_of(parser().parse_args(argv), argv)
            except (ValueError, OSError) as error:
                line = one_line(error)
                assert line and line.isprintable() and len(line) < 2_100
            assert "nowhere" not in sys.modules and not (tmp_path / "new").exists()


def test_a_search_of_more_settings_than_can_be_run_is_refused(tmp_path: Path) -> None:
    record = record_that_names(tmp_path / "large", search={"lr": "uniform(0, 1)"}, num_samples=2**62)
    with pytest.raises(ValueError, match="a search of more than 10,000 settings; lower --num-samples"):
        study_to_resume(record)
