"""Update matching: selects clients whose updates together come closest to the mean of all. NumPy only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bippo_rllib.as_numbers import as_floats
from bippo_rllib.selection.info_entry import entries, row_of_numbers
from bippo_rllib.selection.set_score import SetScore
from bippo_rllib.setting_error import shown

#: Number of latest updates whose median length scales new profiles, and the fewest for which it does.
RECENT, FEWEST = 20, 4


class UpdateMatching(SetScore):
    """Scores a candidate by how well the mean update of the clients picked so far and itself matches the mean of all.

    Every client has a profile ``P``, a sketch of how its training changed the model per training sample, which is
    replaced whenever the client trains. With the clients S picked so far, a candidate i has the score::

        2 <m, t> - length_penalty * |m|**2

    with ``m`` the mean profile of S, i and what earlier rounds trained, and ``t`` that of all live clients that have
    one, both weighted by data size, as models are averaged. A round counts ``memory`` times as much as the next one, so
    that clients are preferred whose updates the last rounds lacked; a round that trained all clients lacked nothing and
    clears the memory. At ``length_penalty`` 1 the score is, up to a constant, minus the squared distance of ``m`` from
    ``t``: clients whose updates cancel each other's bias are picked together, without knowing their labels. Below 1
    long updates are penalised less, since wrong labels make short ones.

    Updates get shorter as training goes on. A new profile is scaled by the median length of the first profiles over the
    median length of the last ``RECENT`` updates, so that old and new ones can be compared; before there are ``FEWEST``
    of these, a client keeps the profile that it has. A client without a profile, such as one that joined and has not
    trained, has NaN as score.

    Related: DivFL (Balakrishnan et al., ICLR 2022), which covers gradients by facility location; "Emulating Full
    Participation" (arXiv:2405.13584).

    Args:
        key: Info key of a client's sketch, ``float[size]`` in the round after it trained, else None.
        size_key: Info key of a client's data size.
        length_penalty: Factor in the formula above, at least 0.
        memory: Weight of a round relative to the next one, at least 0 and below 1; 0 for the round alone.

    Raises:
        ValueError: If ``length_penalty`` or ``memory`` is out of range.
    """

    def __init__(
        self,
        key: str = "update_profile",
        *,
        size_key: str = "num_samples",
        length_penalty: float = 0.5,
        memory: float = 0.8,
    ) -> None:
        if not 0.0 <= length_penalty < np.inf:
            raise ValueError(f"length_penalty is {length_penalty}; it must be finite and at least 0")
        if not 0.0 <= memory < 1.0:
            raise ValueError(f"memory is {memory}; it must be at least 0 and below 1")
        self.key, self.size_key, self.length_penalty = key, size_key, float(length_penalty)
        self.memory = float(memory)
        self.clear()

    def clear(self) -> None:
        """Forgets all profiles and what was trained, as for another model, whose updates are not to be compared."""
        #: What earlier rounds trained: the sum of profiles times sizes, and that of sizes.
        self._past: tuple[np.ndarray, float] = np.zeros(0), 0.0
        self._profiles: dict[str, np.ndarray] = {}
        self._first_length: float | None = None
        self._recent: list[float] = []

    @property
    def profile_size(self) -> int | None:
        """Numbers in a profile; None before the first one."""
        return next((len(profile) for profile in self._profiles.values()), None)

    def observe(self, clients: Sequence[str], infos: Sequence[Mapping[str, Any]]) -> None:
        """Stores the profiles of clients that have trained, and prepares the scores of a round.

        Raises:
            ValueError: If an info lacks a key, a data size is no finite number above 0, or a sketch has another
                size than the others or is not finite.
        """
        needs = "UpdateMatching needs; with envs.FederatedRounds set update_profile_size"
        sketches = entries(clients, infos, self.key, needs)
        sizes = self._checked_sizes(clients, entries(clients, infos, self.size_key, needs))
        new, size = {}, self.profile_size
        for client, sketch in zip(clients, sketches, strict=True):
            if sketch is not None:
                new[client] = row_of_numbers(client, self.key, sketch, size)
                size = len(new[client])
        self._take_over(new)
        self._prepare(clients, sizes)
        self._remember(np.array([sketch is not None for sketch in sketches], dtype=bool))

    def __call__(self, chosen: Sequence[int], candidates: np.ndarray) -> np.ndarray:
        """Returns the scores above; NaN for candidates without a profile."""
        if not self._known.any():
            return np.full(len(candidates), np.nan)
        past, past_size = self._past
        base = self._weighted[list(chosen)].sum(axis=0) + past
        number = self._sizes[[i for i in chosen if self._known[i]]].sum() + past_size
        # Scores of all clients, since to gather the candidates' profiles costs more than to multiply all.
        together = number + self._sizes
        score = 2.0 * ((base @ self._target + self._along) / together)
        score -= self.length_penalty * ((base @ base + 2.0 * (self._weighted @ base) + self._squared) / together**2)
        score[~self._known] = np.nan
        return score.take(candidates)

    def get_state(self) -> dict[str, Any]:
        """Returns all profiles, the lengths that scale new ones, and what earlier rounds trained."""
        return {
            "profiles": {client: profile.copy() for client, profile in self._profiles.items()},
            "first_length": self._first_length,
            "recent": list(self._recent),
            "past": self._past[0].copy(),
            "past_size": self._past[1],
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores a ``state`` that ``get_state`` returned."""
        profiles = {client: np.array(profile) for client, profile in state["profiles"].items()}
        first_length, recent = state["first_length"] or None, list(state["recent"])
        self._past = np.array(state["past"]), state["past_size"]
        self._profiles, self._first_length, self._recent = profiles, first_length, recent

    def _checked_sizes(self, clients: Sequence[str], given: Sequence[Any]) -> np.ndarray:
        sizes = as_floats(given)
        fits = np.isfinite(sizes) & (sizes > 0.0)
        if not fits.all():
            first = int(np.argmin(fits))
            found = f"{clients[first]!r} has {self.size_key} {shown(given[first])}"
            raise ValueError(f"{found}; it must be a finite number above 0")
        return sizes

    def _take_over(self, updates: Mapping[str, np.ndarray]) -> None:
        """Stores the first profiles unchanged, later ones scaled."""
        if not updates:
            return
        lengths = [float(np.linalg.norm(update)) for update in updates.values()]
        if self._first_length is None:
            self._first_length = float(np.median(lengths)) or None  # nothing can be scaled to updates of length 0
            self._profiles = {**self._profiles, **updates}  # a new dict, as copy.copy of this is a copy (predict)
            return
        self._recent = [*self._recent, *lengths][-RECENT:]
        is_enough, median = len(self._recent) >= FEWEST, float(np.median(self._recent))
        scale = self._first_length / median if is_enough and median > 0.0 else 1.0
        kept = {} if is_enough else self._profiles
        scaled = {client: update * scale for client, update in updates.items() if client not in kept}
        for client, profile in scaled.items():
            if not np.isfinite(profile).all():
                raise ValueError(f"the {self.key} of {client!r} is too long or too short to compare with the others")
        self._profiles = {**self._profiles, **scaled}

    def _remember(self, trained: np.ndarray) -> None:
        """Adds what the last round trained, ``bool[N]``, to what earlier rounds did. A round without any adds none."""
        everybody, (past, past_size) = trained.all(), self._past
        if everybody or not len(past):
            past, past_size = np.zeros(self._weighted.shape[1]), 0.0
        if trained.any() and not everybody:
            past = self.memory * (past + self._weighted[trained].sum(axis=0))
            past_size = float(self.memory * (past_size + self._sizes[trained].sum()))
        self._past = past, past_size

    def _prepare(self, clients: Sequence[str], sizes: np.ndarray) -> None:
        """Computes what does not change from pick to pick."""
        rows = [self._profiles.get(client) for client in clients]
        self._known = np.array([row is not None for row in rows], dtype=bool)
        width = len(next(iter(self._profiles.values()), ()))
        nothing = np.zeros(width)
        flat = [nothing, *(nothing if row is None else row for row in rows)]
        profiles = np.concatenate(flat)[width:].reshape(len(rows), width)
        self._sizes = sizes
        of_known = np.where(self._known, sizes, 0.0)
        largest = of_known.max(initial=0.0)  # by which shares are exactly 1 where sizes are alike
        self._target = np.average(profiles, axis=0, weights=of_known / largest) if largest else nothing
        self._weighted = profiles * sizes[:, None]
        self._along = self._weighted @ self._target
        self._squared = np.square(self._weighted).sum(axis=1)
