"""Which networks a method trains, for run.json: what their multiply-accumulates are counted from."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.results.ranges import AtLeastOne


@dataclass(frozen=True, order=True)
class SelectorNetwork:
    """The networks of a method that trains policies, and how long."""

    central: bool  #: One network for all clients; else one for each.
    epochs: AtLeastOne  #: Over each sample.
    hidden_size: AtLeastOne  #: Of actor and critic.
    critic: bool  #: False where policies learn without one.
