"""Types of numbers in records: what pydantic refuses when a record is read, and mypy takes for a plain number."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
AtLeastOne: TypeAlias = Annotated[int, Field(ge=1, lt=2**63)]
Seed: TypeAlias = Annotated[int, Field(ge=0, lt=2**32)]
Share: TypeAlias = Annotated[float, Field(ge=0.0, le=1.0)]
Joules: TypeAlias = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Hertz: TypeAlias = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
