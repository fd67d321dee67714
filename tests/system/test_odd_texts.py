"""Texts of a user's are data: in figures, tables, paths and on terminals they are shown as they are."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure
from matplotlib.text import Text
from row_factory import make_rows, write_trial

from envs.checks import printable
from experiments import tune_bippo
from experiments.report import command
from experiments.report.report_md import write_report
from experiments.report.styles import as_drawn
from experiments.report.summary import build_report
from experiments.report.tables import code, markdown_table, plain, text_table
from experiments.results.federation_record import ClientRecord, FederationRecord, ModelRecord
from experiments.results.run_info import RunInfo, write_run_info

ODD = [
    *(
        r"$\frac$",
        "US$ and CA$",
        r"\$x$",
        "a|b",
        "`a` ``b``",
        "<b>&amp;</b>",
        "_hidden",
        "*bold* ~~out~~",
        "[a](http://b)",
    ),
    *("猫", "two\nlines", "\x1b[31mred\x07", "\u202eabc", "half \udcff", "x" * 500, "", " ", "# heading", "- point"),
]
TEXT = st.sampled_from(ODD) | st.text(st.characters(), max_size=12) | st.text("_*`|\\<&$~[](a0 ", max_size=9)


@given(TEXT)
def test_a_text_is_drawn_as_it_is(text: str) -> None:
    drawn = as_drawn(text)
    assert not is_math_text(drawn) and not drawn.startswith("_") and len(drawn.replace(r"\$", "$")) <= 61
    if text.isascii() and text.isprintable() and len(text) < 60:
        assert drawn.replace(r"\$", "$").removeprefix(" ") == text.removeprefix(" ")


@given(st.lists(TEXT, min_size=1, max_size=3))
def test_a_text_is_one_cell_of_a_table_and_shown_as_it_is(texts: list[str]) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    table = markdown_table([{"method": text, "J": "1.0"} for text in texts])
    tokens = parser.parse(table)
    assert all(token.type.split("_")[0] in ("table", "thead", "tbody", "tr", "th", "td", "inline") for token in tokens)
    cells = [token for token in tokens if token.type == "inline"]
    assert len(cells) == 2 * (len(texts) + 1)
    for text, cell in zip(texts, cells[2::2], strict=True):
        assert all(child.type == "text" for child in cell.children)
        assert "".join(child.content for child in cell.children) == printable(text).strip()
    assert len(text_table([{"method": text, "J": "1.0"} for text in texts]).splitlines()) == 2 + len(texts)


@given(TEXT)
def test_a_text_is_one_span_of_code(text: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    tokens = markdown_it.MarkdownIt("commonmark").parse(f"command: {code(text)}, and {plain(text)}")
    if text.strip():
        spans = [child.content for child in tokens[1].children if child.type == "code_inline"]
        assert [span.strip() for span in spans] == [printable(text).strip()]


def _odd_study(folder: Path) -> None:
    methods = ["_hidden.make", r"$\frac$", "a|b", "`<b>", "猫", "\x1b[31mred"]
    for number, method in enumerate(methods):
        write_trial(folder, make_rows([0.1 * number] * 12, method, trial=f"trial{number}", scenario="a\n$b$"))
    classes = [r"$\frac$", "US$ and CA$", "猫", "_x"]
    clients = [ClientRecord(client, {str(label): 9 for label in range(4)}, 7e8, 1.0) for client in range(2)]
    record = FederationRecord(classes, 1, ModelRecord("odd:$_$", 10, 100), clients)
    odd = {"lr": "`|<b>\n"}
    info = RunInfo("a\n$b$", 0.8, 12, {}, methods, [7, 28], odd, command="`x` | y", federation_record=record)
    write_run_info(folder, info)


def test_a_study_of_odd_names_has_a_report_and_no_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures: list[Figure] = []

    def draw(figure: Figure, path: Path, **options: object) -> None:
        figures.append(figure)
        Path(path).touch()
        if Path(path).suffix == ".png":
            figure.draw_without_rendering()

    monkeypatch.setattr(Figure, "savefig", draw)
    _odd_study(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DeprecationWarning)  # of libraries among themselves
        report = build_report(tmp_path)
        path, _ = write_report(report, tmp_path)
    shown = {text.get_text() for figure in figures for text in figure.findobj(Text)}
    assert {r" _hidden.make (n = 1 seed)", r"\$\frac\$ (n = 1 seed)"} <= shown
    text = path.read_text(encoding="utf-8")
    assert "猫: 9" in text and r"US\$ and CA\$: 9" in text
    assert r"| a\|b | 1 |" in text and r"| \`\<b> | 1 |" in text and r"| \$\\frac\$ |" in text
    assert "\x1b" not in text and "- command: `` `x` | y ``" in text
    assert all(line.isprintable() for line in report.text().splitlines())
    plt.close("all")


@pytest.mark.parametrize("encoding", ["ascii", "cp437", "latin-1"])
def test_a_report_is_printed_on_any_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blank_figures: None, encoding: str
) -> None:
    for seed in (7, 28):
        write_trial(tmp_path / "stüdie", make_rows([0.9] * 12, seed=seed))
        write_trial(tmp_path / "stüdie", make_rows([0.5] * 12, "fedavg", seed=seed))
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert command.main([str(tmp_path / "stüdie")]) == 0
    assert tune_bippo.main(["--resume", "nowhere–ü"]) == 2
    err.flush()
    printed, said = out.buffer.getvalue().decode(encoding), err.buffer.getvalue().decode(encoding)
    sign = "?" if encoding == "ascii" else "±"
    assert f"0.900 {sign} 0.000" in printed and said.startswith("error: ") and len(said.splitlines()) == 1


def test_what_steers_a_terminal_is_written_as_an_escape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([str(tmp_path / "\x1b[31mred")]) == 2
    assert tune_bippo.main(["--methods", "\x1b]0;title\x07"]) == 2
    assert all(line.isprintable() and line.startswith("error: ") for line in capsys.readouterr().err.splitlines())


@pytest.mark.slow
def test_a_path_that_is_no_text_here_is_refused_in_one_line(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    arguments = [b"--methods", b"fedavg", b"--results-dir", b"st\xc3\xbcdie"]
    process = [sys.executable, "-m", "experiments.tune_bippo", *arguments]
    done = subprocess.run(process, env=environment, cwd=tmp_path, capture_output=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith(b"error: ") and b"set PYTHONUTF8=1" in line
