"""How numbers are written in tables and sentences: digits, signs, units, and a dash for what is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from experiments.report.statistics import Estimate

MISSING = "–"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, decimals: int, signed: bool = False) -> str:
    """Returns ``+0.030`` or ``−0.030`` with ``signed``; zero has no sign."""
    rounded = round(value, decimals) + 0.0  # no "-0.000"
    return f"{rounded:{'+' if signed and rounded else ''}.{decimals}f}".replace("-", "−")


def whole(value: float | None) -> str:
    """Returns ``1,664``."""
    return MISSING if value is None else f"{value:,.0f}"


def power_of_ten(value: float) -> str:
    """Returns ``4.0·10⁴``."""
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def as_printed(value: float, decimals: int) -> str:
    """Returns ``43.0``, ``41.75`` or ``10.416``: as many digits as the paper prints, at least one decimal."""
    text = f"{value:.{decimals}f}".rstrip("0")
    return f"{text}0" if text.endswith(".") else text


def plus_minus(estimate: Estimate, decimals: int) -> str:
    """Returns ``0.809 ± 0.040``; the value alone for one seed."""
    mean = number(estimate.mean, decimals)
    return mean if estimate.n == 1 else f"{mean} ± {estimate.std:.{decimals}f}"


def with_interval(estimate: Estimate, decimals: int, signed: bool = False) -> str:
    """Returns ``0.779 ± 0.014 [0.761, 0.792]``; without interval for one seed."""
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
