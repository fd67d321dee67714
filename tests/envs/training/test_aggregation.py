"""FedAvg in fixed point: exact in any order and grouping, close to the average in real numbers, no silent overflow."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.training.aggregation import WeightsTooLarge, mean, merged, minus, weighted


def random_clients(seed, count):
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(count, 50, generator=generator) * 10.0 ** torch.randint(
        -4, 3, (count, 50), generator=generator
    )
    samples = torch.randint(1, 2000, (count,), generator=generator).tolist()
    return weights, samples


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 12), data=st.data())
def test_any_order_and_grouping_gives_the_same_bits(seed, count, data):
    weights, samples = random_clients(seed, count)
    parts = [weighted(row, number) for row, number in zip(weights, samples, strict=True)]
    order = data.draw(st.permutations(range(count)))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, count - 1)))))
    groups = [order[start:end] for start, end in zip([0, *cuts], [*cuts, count], strict=True)]
    regrouped = merged(merged(parts[client] for client in group) for group in groups if group)
    straight = merged(parts)
    assert torch.equal(regrouped.total, straight.total)
    assert (regrouped.num_samples, regrouped.bound) == (straight.num_samples, straight.bound)
    assert torch.equal(mean(regrouped), mean(straight))


@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), place=st.integers(0, 5))
def test_a_part_is_taken_out_to_the_last_bit(seed, count, place):
    parts = [weighted(row, number) for row, number in zip(*random_clients(seed, count), strict=True)]
    own = parts[place % count]
    rest, straight = minus(merged(parts), own), merged(part for part in parts if part is not own)
    assert torch.equal(rest.total, straight.total) and torch.equal(mean(rest), mean(straight))
    assert (rest.num_samples, rest.bound) == (straight.num_samples, straight.bound)


def test_mean_is_weighted_by_samples():
    # (1 * 1.5 + 3 * (-0.5)) / 4 = 0 and (1 * 4 + 3 * 8) / 4 = 7
    average = mean(merged([weighted(torch.tensor([1.5, 4.0]), 1), weighted(torch.tensor([-0.5, 8.0]), 3)]))
    assert average.dtype == torch.float32 and average.tolist() == [0.0, 7.0]


def test_close_to_the_average_in_float64():
    weights, samples = random_clients(seed=3, count=20)
    share = torch.tensor(samples, dtype=torch.float64) / sum(samples)
    expected = (share[:, None] * weights.double()).sum(dim=0)
    average = mean(merged(weighted(row, number) for row, number in zip(weights, samples, strict=True)))
    # 2**-33 of rounding, then float32
    torch.testing.assert_close(average.double(), expected, rtol=6e-8, atol=1.2e-10)


def test_inputs_are_left_alone():
    parts = [weighted(torch.ones(3), 2), weighted(torch.ones(3), 5)]
    merged(parts)
    assert parts[0].total.tolist() == [2 * 2**32] * 3


def test_overflow_is_refused():
    # n*|w| may reach 2**31 = 2.1e9 in all: one client with 1,000 samples at 1e6 fits, three do not
    one = weighted(torch.tensor([1e6]), 1000)
    with pytest.raises(ValueError, match=r"averaging 3000 samples may overflow 64 bits"):
        merged([one, one, one])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -3e9])
def test_weights_that_cannot_be_averaged_are_refused(bad):
    with pytest.raises(ValueError, match="cannot be averaged"):
        weighted(torch.tensor([1.0, bad]), 1)


def test_nothing_to_average():
    with pytest.raises(ValueError, match="no client to average"):
        merged([])


@settings(max_examples=50)
@given(samples=st.lists(st.integers(1, 500), min_size=1, max_size=20), size=st.floats(1.0, 2.0**31))
def test_clients_that_pass_alone_never_overflow_together(samples, size):
    try:
        parts = [weighted(torch.tensor([size, -size]), number, sum(samples)) for number in samples]
    except WeightsTooLarge:
        # Refused by its weights alone: a client with other samples is refused as well.
        for number in samples:
            with pytest.raises(WeightsTooLarge):
                weighted(torch.tensor([size, -size]), number, sum(samples))
    else:
        average = mean(merged(parts))
        assert average.tolist() == pytest.approx([size, -size], rel=1e-6)
