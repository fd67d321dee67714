"""The committed rows: each record is read, each study makes a report, and the tables that quote them are rebuilt.

A table of a page names its rows in a comment before it, which no reader sees:

    <!-- rows: COLLECTION/STUDY, COLLECTION/*
         columns: method, accuracy, to target @2, -, seed 7 -->

- ``rows`` are numbered from 1; ``COLLECTION/ONE+OTHER`` are two studies as one. A column without ``@`` takes the first
  that have the method; ``@2`` takes the second, ``@1+3`` one of the two, ``@1/2`` both of them, on common seeds.
- ``studies: 2, 1`` says which rows each line of the table has, ``methods: ...`` which method, ``rounds: 1-120`` which
  rounds count. Otherwise a column ``method``, ``study`` or ``rounds`` of the table says so.
- ``accuracy METHOD`` and ``accuracy 1-20`` are a column of one method, of some rounds. ``-`` is not checked.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from source_tree import ROOT

from experiments.methods import is_reference, privileged_information
from experiments.report.report_md import write_report
from experiments.report.summary import build_report
from experiments.results.run_info import parse_run_info
from experiments.scenarios import SCENARIOS

RESULTS = ROOT / "docs" / "results"
COLLECTIONS = sorted(path.parent.name for path in RESULTS.glob("*/rounds.parquet"))
#: What tables are made of.
COLUMNS = {
    "rounds": ["study", "scenario", "method", "seed", "trial", "round", "mean_accuracy", "energy_j"],
    "clients": ["study", "trial", "client", "cost_j", "trained", "failed"],
}
PAGES = ("README.md", "docs/results.md", "docs/algorithm.md")
_TABLE = re.compile(r"<!-- rows: (.*)\n((?:.*\n)*?.*)-->\n\n((?:\|.*\n)+)")


class Rows(NamedTuple):
    rounds: pd.DataFrame
    clients: pd.DataFrame
    records: dict[str, Any]

    def of(self, method: str) -> Rows:
        """The rows of a method; a custom one may be named without its module."""
        named = self.rounds["method"].str.fullmatch(rf"(.*:)?{re.escape(method)}")
        return self._replace(rounds=self.rounds[named])

    def within(self, first: float, last: float) -> Rows:
        return self._replace(rounds=self.rounds[self.rounds["round"].between(first, last)])

    def study(self, *names: str) -> Rows:
        rounds, clients = (frame[frame["study"].isin(names)] for frame in (self.rounds, self.clients))
        return Rows(rounds, clients, {name: self.records[name] for name in names})

    def per_seed(self, column: str = "mean_accuracy") -> pd.Series:
        return self.rounds.groupby("seed")[column].mean()


@functools.cache
def rows_of(name: str) -> Rows:
    collection, study = name.split("/")
    if study != "*":
        return rows_of(f"{collection}/*").study(*study.split("+"))
    rounds, clients = (
        pd.read_parquet(RESULTS / collection / f"{kind}.parquet", columns=columns) for kind, columns in COLUMNS.items()
    )
    names = dict.fromkeys(["study", "trial"], "category")  # which are selected in no time
    records, rounds.attrs = rounds.attrs["studies"], {}  # which pandas would copy with every frame
    return Rows(rounds.astype(names | {"method": "category"}), clients.astype(names), records)


def to_target(rows: Rows) -> list[float]:
    (target,) = {record["target_accuracy"] for record in rows.records.values()}
    rolling = rows.rounds.pivot(index="round", columns="seed", values="mean_accuracy").rolling(10).mean()
    found = (rolling >= target - 1e-9).loc[:, (rolling >= target - 1e-9).any()].idxmax()
    missed = [len(found), rolling.shape[1]] if 0 < len(found) < rolling.shape[1] else []
    return [found.mean(), found.std(ddof=0), *missed] if len(found) else []


def energy_to_noisy(rows: Rows) -> list[float]:
    (noisy_clients,) = {tuple(record["federation_record"]["noisy_clients"]) for record in rows.records.values()}
    spent = rows.clients[rows.clients["trained"] | rows.clients["failed"]]
    spent = spent[spent["trial"].isin(rows.rounds["trial"])]
    noisy = spent["client"].isin(noisy_clients)
    return [100 * spent.loc[noisy, "cost_j"].sum() / spent["cost_j"].sum()]


def paper(rows: Rows, field: str) -> list[float]:
    result = SCENARIOS[rows.rounds["scenario"].iloc[0]].paper.get(rows.rounds["method"].iloc[0])
    found = [getattr(result, field, None), getattr(result, f"{field}_std", None)]
    return [value for value in found if value is not None]


def mean_and_std(values: pd.Series) -> list[float]:
    return [values.mean(), values.std(ddof=0)]


def of_oracle(rows: Rows, every: Rows) -> list[float]:
    if rows.rounds["method"].iloc[0] == "oracle":
        return []
    return [(100 * rows.per_seed() / every.of("oracle").per_seed()).mean()]


def ahead_of_random(rows: Rows, every: Rows) -> list[float]:
    return [(rows.per_seed() > every.of("fedavg").per_seed()).sum()]


def comparable(every: Rows) -> pd.Series:
    """The mean accuracy of each method without privileged information that is no bound."""
    means = every.rounds.groupby("method")["mean_accuracy"].mean()
    return means[[not privileged_information(name) and not is_reference(name) for name in means.index]]


def rank(rows: Rows, every: Rows) -> list[float]:
    means = comparable(every)
    return [(means > means[rows.rounds["method"].iloc[0]]).sum() + 1]


def best_other(rows: Rows, every: Rows) -> list[float]:
    return [comparable(every).drop(rows.rounds["method"].iloc[0]).max()]


def share_of_fedcbs(rows: Rows, every: Rows) -> list[float]:
    random, bound = (every.of(name).per_seed().mean() for name in ("fedavg", "fedcbs"))
    return [100 * (rows.per_seed().mean() - random) / (bound - random)] if bound > random else []


QUANTITIES: dict[str, Callable[[Rows, Rows], list[float]]] = {
    "accuracy": lambda rows, _: mean_and_std(rows.per_seed()),
    "late accuracy": lambda rows, _: mean_and_std(rows.within(101, np.inf).per_seed()),
    "worst seed": lambda rows, _: [rows.per_seed().min()],
    "seed": lambda rows, _: [],
    "to target": lambda rows, _: to_target(rows),
    "joules": lambda rows, _: [rows.per_seed("energy_j").mean()],
    "% of oracle": of_oracle,
    "seeds ahead of random": ahead_of_random,
    "rank": rank,
    "best other": best_other,
    "share of fedcbs": share_of_fedcbs,
    "energy to noisy": lambda rows, _: energy_to_noisy(rows),
    "paper accuracy": lambda rows, _: paper(rows, "mean_accuracy"),
    "paper to target": lambda rows, _: paper(rows, "rounds_to_target"),
}
_COLUMN = re.compile(
    rf"(?P<name>{'|'.join(sorted(QUANTITIES, key=len, reverse=True))})(?: (?P<of>[a-z][\w-]*|\d+(?!-)\b))?"
    r"(?: (?P<first>\d+)-(?P<last>\d+))?(?: @(?P<groups>[\d+/]+))?"
)


class Table(NamedTuple):
    """A table of a page, and what its comment says of it."""

    named: list[str]
    groups: list[Rows]
    facts: dict[str, list[str]]
    lines: list[list[str]]

    @classmethod
    def of(cls, rows: str, facts: str, text: str) -> Table:
        named = (line.strip().partition(": ") for line in facts.strip().splitlines())
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
        of_groups = [name.strip() for name in rows.split(",")]
        groups = [rows_of(name) for name in of_groups]
        return cls(
            of_groups, groups, {key: [part.strip() for part in parts.split(",")] for key, _, parts in named}, lines[2:]
        )

    def problems(self) -> Iterator[str]:
        columns = self.facts["columns"]
        for place, cells in enumerate(self.lines):
            assert len(cells) == len(columns), cells
            for column, cell in zip(columns, cells, strict=True):
                if column in ("-", "method", "study", "rounds"):
                    continue
                expected = self.expected(column, place)
                found = re.findall(r"\d+(?:\.\d+)?", cell)
                rounded = [
                    f"{value:.{len(text.partition('.')[2])}f}" for value, text in zip(expected, found, strict=False)
                ]
                if found != rounded or (expected and not found) or len(expected) == 4 > len(found):
                    yield f"{cells[0]}, {column}: the page has {cell}, the rows {np.round(expected, 4).tolist()}"

    def expected(self, column: str, place: int) -> list[float]:
        """The numbers that a cell may have, in their order: fewer than all will do."""
        found = _COLUMN.fullmatch(column)
        assert found, column
        first, last = (int(found["first"]), int(found["last"])) if found["first"] else self.rounds(place)
        method = found["of"] if found["of"] and found["name"] != "seed" else self.method(place)
        selected = [group.within(first, last) for group in self.candidates(found["groups"], place)]
        having = [(of, group) for group in selected if len((of := group.of(method)).rounds)]
        if "/" not in (found["groups"] or ""):
            having = having[:1]
        assert having, f"no rows of {method} for {column}"
        seeds = set.intersection(*(set(of.rounds["seed"]) for of, _ in having))
        having = [(of._replace(rounds=of.rounds[of.rounds["seed"].isin(seeds)]), group) for of, group in having]
        if found["name"] == "seed":
            return [of.per_seed()[int(found["of"])] for of, _ in having]
        numbers = [QUANTITIES[found["name"]](of, group) for of, group in having]
        return numbers[0] if len(numbers) == 1 else [values[0] for values in numbers]

    def candidates(self, groups: str | None, place: int) -> list[Rows]:
        if groups:
            return [self.groups[int(number) - 1] for number in re.split(r"[+/]", groups)]
        if "studies" in self.facts:
            return [self.groups[int(self.facts["studies"][place]) - 1]]
        if "study" in self.facts["columns"]:
            names = re.findall(r"`([^`]+)`", self.lines[place][self.facts["columns"].index("study")])
            return [rows_of(f"{group.partition('/')[0]}/{'+'.join(names)}") for group in self.named]
        return self.groups

    def cell(self, column: str, place: int) -> str:
        """The name in a cell, without what stands around it."""
        found = re.search(r"`([^`]+)`|(\w+)", self.lines[place][self.facts["columns"].index(column)])
        assert found
        return found[1] or found[2]

    def method(self, place: int) -> str:
        return self.facts["methods"][place] if "methods" in self.facts else self.cell("method", place)

    def rounds(self, place: int) -> tuple[float, float]:
        text = self.lines[place][self.facts["columns"].index("rounds")] if "rounds" in self.facts["columns"] else ""
        if found := re.search(r"(\d+)[–-](\d+)", text or self.facts.get("rounds", [""])[0]):
            return int(found[1]), int(found[2])
        return (int(re.findall(r"\d+", text)[0]), np.inf) if text else (1, np.inf)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_tables_say_what_the_rows_say(page: str) -> None:
    tables = _TABLE.findall((ROOT / page).read_text())
    assert tables and not [problem for table in tables for problem in Table.of(*table).problems()]


def test_every_table_of_the_results_names_its_rows() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    assert len(_TABLE.findall(text)) == text.count("\n|---") > 5


def test_a_number_that_is_not_of_the_rows_is_found() -> None:
    text = (ROOT / "docs" / "results.md").read_text()
    rows, facts, table = next(found for found in _TABLE.findall(text) if "transfer-small/" in found[0])
    assert not [*Table.of(rows, facts, table).problems()]
    cell = re.search(r"0\.\d(\d)", table)
    wrong = table[: cell.start(1)] + str((int(cell[1]) + 1) % 10) + table[cell.end(1) :]
    assert len([*Table.of(rows, facts, wrong).problems()]) == 1


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_every_record_is_read(collection: str) -> None:
    records = pd.read_parquet(RESULTS / collection / "rounds.parquet", columns=["study"]).attrs["studies"]
    assert records
    for name, record in records.items():
        info = parse_run_info(json.dumps(record), name)
        assert info.command and info.commit and "data_dir" not in info.federation


def test_the_folder_stays_small() -> None:
    files = [path for path in RESULTS.rglob("*") if path.is_file()]
    assert len(files) <= 60 and sum(path.stat().st_size for path in files) < 10e6


@pytest.mark.parametrize(
    ("studies", "against"),
    [
        (["transfer-small/pretrained"], ["transfer-small/scratch"]),
        pytest.param(["churn"], ["fashion-mnist-200"], marks=pytest.mark.slow),
    ],
)
def test_collected_studies_make_a_report(
    tmp_path: Path, blank_figures: None, studies: list[str], against: list[str]
) -> None:
    paths = [[RESULTS / name for name in names] for names in (studies, against)]
    path, _ = write_report(build_report(*paths), tmp_path)
    assert re.search(r"^## How .+ was run$", path.read_text(), re.MULTILINE)
