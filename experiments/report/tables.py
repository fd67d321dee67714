"""Tables as text, aligned for the terminal or Markdown: how numbers are written in them, and texts of users."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from envs.checks import printable
from experiments.report.statistics import Estimate
from experiments.results.markdown import markdown

Record = Mapping[str, str]
MISSING = "–"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
#: What is markup anywhere in a line, underscores that are not inside a word among it.
_MARKUP = re.compile(r"[\\`*<&$~|]|(?<![^\W_])_|_(?![^\W_])|(?<=\])(?=\()")


def number(value: float, decimals: int, signed: bool = False) -> str:
    """Returns ``+0.030`` or ``−0.030`` with ``signed``; zero has no sign."""
    rounded = round(value, decimals) + 0.0  # no "-0.000"
    return f"{rounded:{'+' if signed and rounded else ''}.{decimals}f}".replace("-", "−")


def power_of_ten(value: float) -> str:
    """Returns ``4.0·10⁴``."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def plus_minus(estimate: Estimate, decimals: int) -> str:
    """Returns ``0.809 ± 0.040``; the value alone for one seed, a dash for none."""
    if not estimate.n:
        return MISSING
    mean = number(estimate.mean, decimals)
    return mean if estimate.n == 1 else f"{mean} ± {estimate.std:.{decimals}f}"


def with_interval(estimate: Estimate, decimals: int, signed: bool = False) -> str:
    """Returns ``0.779 ± 0.014 [0.761, 0.792]``; without interval for one seed, a dash for none."""
    if not estimate.n:
        return MISSING
    mean = number(estimate.mean, decimals, signed)
    if estimate.interval is None:
        return f"{mean} (n = 1, no interval)"
    low, high = (number(bound, decimals, signed) for bound in estimate.interval)
    return f"{mean} ± {estimate.std:.{decimals}f} [{low}, {high}]"


class EnergyUnit(NamedTuple):
    """The unit of a column or an axis."""

    name: str
    per_joule: float

    def text(self, joules: Estimate) -> str:
        """Returns four significant digits of the mean, and as many decimals of the spread."""
        scaled = Estimate.of(self.per_joule * value for value in joules.values)
        digits_before_point = math.floor(math.log10(scaled.mean)) + 1 if scaled.mean > 0 else 1
        return plus_minus(scaled, max(0, 4 - digits_before_point))


def energy_unit(joules: Iterable[float]) -> EnergyUnit:
    """Returns mJ where every value is below 1 J, so that all of them are written in one unit."""
    return EnergyUnit("mJ", 1e3) if 0 < max(joules) < 1 else EnergyUnit("J", 1.0)


def energy(joules: float) -> str:
    """Returns ``4.594 J`` or ``13.74 mJ``, for a sentence."""
    unit = energy_unit([joules])
    return f"{joules * unit.per_joule:.4g} {unit.name}"


class Markdown(str):
    """A text that is Markdown already."""

    __slots__ = ()


def plain(text: str) -> str:
    """Returns Markdown that shows the text in one line; what is ``Markdown`` already comes back as it is."""
    return text if isinstance(text, Markdown) else _MARKUP.sub(lambda found: f"\\{found[0]}", printable(text))


def code(text: object) -> Markdown:
    """Returns a code span that shows the text in one line."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    padding = " " if shown.startswith("`") or shown.endswith("`") else ""
    return Markdown(f"{fence}{padding}{shown}{padding}{fence}")


def text_table(records: Sequence[Record]) -> str:
    """Returns aligned columns under their headers; the first column to the left, the others to the right."""
    headers, *lines = [[printable(cell) for cell in line] for line in _lines(records)]
    widths = [max(map(len, column)) for column in zip(headers, *lines, strict=True)]
    ruled = (headers, ["-" * width for width in widths], *lines)
    aligned = ([f"{line[0]:<{widths[0]}}", *map(str.rjust, line[1:], widths[1:])] for line in ruled)
    return "\n".join("   ".join(line).rstrip() for line in aligned)


def markdown_table(records: Sequence[Record]) -> str:
    """Returns the same as a Markdown table."""
    return markdown([[plain(cell) for cell in line] for line in _lines(records)], right=range(1, len(records[0])))


def _lines(records: Sequence[Record]) -> list[list[str]]:
    """Returns the headers, and the cells of each record."""
    headers = list(records[0])
    return [headers, *([record[name] for name in headers] for record in records)]
