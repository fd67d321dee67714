"""A grid on which nodes neither join nor leave while a strategy configures a round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flwr.serverapp import Grid

#: Flower's strategies look twice: to count the nodes, and to draw as many of them.
LOOKS = 2


class NodeSnapshot:
    """Returns the same nodes at the first two looks; everything else is the grid's.

    Flower's strategies count the nodes and then draw as many from a second list. Where a node joined in between, they
    would leave out another; where one left, they would wait for its return. A strategy that looks a third time waits
    for nodes to connect, so that from then on it sees the connected nodes.

    Args:
        grid: The grid.

    Attributes:
        node_ids: The nodes of the latest look.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._looks = 0
        self.node_ids = list(grid.get_node_ids())

    def get_node_ids(self) -> Iterable[int]:
        """Returns the ids of the connected nodes."""
        self._looks += 1
        if self._looks > LOOKS:
            self.node_ids = list(self._grid.get_node_ids())
        return list(self.node_ids)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)
