"""What every round did with every client, as plain records, in memory and in a JSON-lines file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas as pd

#: The entries of a record.
FIELDS = ("round", "client", "cost_j", "accuracy", "score", "selected", "trained", "effect")

Record = dict[str, Any]


class History(Sequence[Record]):
    """The records of a run: one for each round and client that was available in it.

    A record is a dict with

    - ``round``: counted from 1; 0 is the evaluation before the first round;
    - ``client``: its id, as text unless it is a whole number;
    - ``cost_j``: joules that training it in this round costs;
    - ``accuracy``: of the model after the round; None if the client did not evaluate it;
    - ``score``: what the selector picked by, see ``ClientSelector.scores``; None in round 0, and where a ranking left
      the client out;
    - ``selected``, ``trained``: whether it was sent the training, and whether its reply was averaged;
    - ``effect``: on the mean accuracy; None where it was not measured.

    Args:
        path: A file to which every round is appended once it is complete, a record a line; None for none.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._records: list[Record] = []

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> list[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | list[Record]:
        return self._records[index]

    def to_pandas(self) -> pd.DataFrame:
        """Returns a table with a row for each record."""
        import pandas as pd  # needed only here

        table = pd.DataFrame(self._records, columns=list(FIELDS))
        return table.astype(dict.fromkeys(("cost_j", "accuracy", "score", "effect"), float))  # None becomes NaN

    @property
    def size(self) -> int:
        """Bytes in the file, which ``check`` and ``go_on`` are given after a restart."""
        return self.path.stat().st_size if self.path is not None and self.path.exists() else 0

    def clear(self) -> None:
        """Begins a new run.

        Raises:
            ValueError: If the file holds another run's records.
        """
        if self.size:
            raise ValueError(f"{self.path} holds the records of another run; load that run, or choose another file")
        self._records = []

    def check(self, size: int) -> None:
        """Raises a ValueError unless the file still begins as it did when its size was ``size``."""
        if self.path is not None and self.size < size:
            raise ValueError(
                f"{self.path} has {self.size} bytes, and had {size} when the run was saved; it is another run's"
            )

    def go_on(self, size: int) -> None:
        """Goes on behind the first ``size`` bytes of the file; rounds that were not saved are cut off."""
        self._records = []
        if self.path is not None and self.path.exists():
            os.truncate(self.path, size)
            lines = self.path.read_text(encoding="utf-8").splitlines()
            self._records = [json.loads(line) for line in lines]

    def append(self, records: Iterable[Record]) -> None:
        """Appends the records of a round, which are on the disk when it returns."""
        new = list(records)
        self._records += new
        if self.path is None or not new:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(record) + "\n" for record in new))
            file.flush()
            os.fsync(file.fileno())
