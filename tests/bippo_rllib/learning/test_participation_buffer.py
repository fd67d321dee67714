"""The participation buffer: full batches come out once, the rest waits."""

from __future__ import annotations

import numpy as np
import pytest

from bippo_rllib.learning.participation_buffer import ParticipationBuffer


def add(buffer: ParticipationBuffer, slots: list[int], reward: float) -> None:
    observations = np.array([[slot, reward] for slot in slots], dtype=np.float32)
    log_probs, rewards = np.full(len(slots), -0.7), np.full(len(slots), reward)
    buffer.add(np.array(slots), observations, observations + 0.5, log_probs, rewards)


def test_a_policy_is_full_after_its_own_second_participation():
    buffer = ParticipationBuffer(num_policies=4, batch_size=2, obs_dim=2)
    add(buffer, [0, 2], 1.0)
    assert buffer.take_full() is None
    add(buffer, [2, 3], -1.0)
    batch = buffer.take_full()
    assert batch.slots.tolist() == [2]
    assert batch.rewards.tolist() == [[1.0, -1.0]]
    assert batch.observations.tolist() == [[[2.0, 1.0], [2.0, -1.0]]]
    assert batch.next_observations.tolist() == [[[2.5, 1.5], [2.5, -0.5]]]
    assert batch.ends.tolist() == [[False, False]]
    assert buffer.counts.tolist() == [1, 0, 0, 1]
    assert buffer.take_full() is None


def test_an_ended_sequence_is_marked_and_the_batch_waits_for_the_next_episode():
    buffer = ParticipationBuffer(num_policies=3, batch_size=2, obs_dim=2)
    add(buffer, [1], 1.0)
    buffer.end_sequences(np.array([0, 1, 2]))
    add(buffer, [0, 1], 2.0)
    batch = buffer.take_full()
    assert batch.slots.tolist() == [1]
    assert batch.ends.tolist() == [[True, False]]
    # A slot used again does not inherit the mark.
    add(buffer, [1], 3.0)
    add(buffer, [1], 4.0)
    assert buffer.take_full().ends.tolist() == [[False, False]]


def test_state_round_trip_growth_and_clear():
    buffer = ParticipationBuffer(num_policies=2, batch_size=2, obs_dim=2)
    add(buffer, [0, 1], 1.0)
    other = ParticipationBuffer(num_policies=2, batch_size=2, obs_dim=2)
    other.set_state(buffer.get_state(np.array([1, 0])), np.array([1, 0]))
    other.grow(5)
    other.clear(np.array([0]))
    add(other, [0, 1, 4], 2.0)
    assert other.counts.tolist() == [1, 2, 0, 0, 1]
    assert other.take_full().rewards.tolist() == [[1.0, 2.0]]
    assert buffer.counts.tolist() == [1, 1]


def test_a_state_has_the_arrays_of_a_file_whatever_else_a_buffer_holds():
    buffer, slots = ParticipationBuffer(num_policies=2, batch_size=2, obs_dim=2), np.array([0, 1])
    before = buffer.get_state(slots)
    buffer.anything = np.zeros(7)
    assert list(buffer.get_state(slots)) == list(before)
    assert set(before) == {"counts", "observations", "next_observations", "log_probs", "rewards", "ends"}
    buffer.set_state(before, slots)
    buffer.grow(3)
    assert buffer.anything.shape == (7,)


def test_a_full_batch_and_a_state_of_another_batch_size_are_refused():
    buffer = ParticipationBuffer(num_policies=2, batch_size=1, obs_dim=2)
    add(buffer, [0], 1.0)
    with pytest.raises(ValueError, match="full and was not taken"):
        add(buffer, [0], 1.0)
    saved = ParticipationBuffer(num_policies=2, batch_size=3, obs_dim=2).get_state(np.array([0]))
    with pytest.raises(ValueError, match="policy_batch_size"):
        buffer.set_state(saved, np.array([0]))
