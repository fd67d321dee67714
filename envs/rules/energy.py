"""Energy of one client in one FL round, in joules (paper, section "Energy model"). Pure functions.

In symbols::

    E = E_comm + epochs * E_comp
    E_comm = P * s / (B * log2(1 + h * P / sigma))    uplink of the model, s = 32 bits * parameters
    E_comp = (alpha / 2) * eta * |D| * f**2           one local epoch, |D| in bits

Every function raises ``ValueError`` naming the argument if one is NaN, infinite or out of range.
"""

from __future__ import annotations

import math

#: The paper's constants (table of hyperparameters).
BANDWIDTH_HZ = 1e6
CHANNEL_GAIN = 1e-8
TRANSMIT_POWER_W = 0.5
NOISE_W = 1e-10
HALF_CAPACITANCE = 2e-28
CYCLES_PER_BIT = 20.0

#: Both a weight and a value of a sample are counted as 32-bit numbers. For samples the paper does not say so; only
#: with 32 bits do the budget shares it prints come out.
BITS_PER_VALUE = 32


def uplink_rate_bps(bandwidth_hz: float, channel_gain: float, transmit_power_w: float, noise_w: float) -> float:
    """Returns the Shannon rate of the uplink, ``B * log2(1 + h * P / sigma)``, in bit/s.

    Args:
        bandwidth_hz: B.
        channel_gain: h.
        transmit_power_w: P.
        noise_w: sigma.
    """
    _positive(bandwidth_hz=bandwidth_hz, channel_gain=channel_gain, transmit_power_w=transmit_power_w, noise_w=noise_w)
    return bandwidth_hz * math.log2(1.0 + channel_gain * transmit_power_w / noise_w)


def communication_energy_j(transmit_power_w: float, model_bits: float, rate_bps: float) -> float:
    """Returns the energy of sending the model once, ``P * s / rate``, in joules.

    Args:
        transmit_power_w: P.
        model_bits: s.
        rate_bps: Rate of the uplink.
    """
    _positive(transmit_power_w=transmit_power_w, rate_bps=rate_bps)
    _not_negative(model_bits=model_bits)
    return transmit_power_w * model_bits / rate_bps


def computation_energy_j(half_capacitance: float, cycles_per_bit: float, data_bits: float, cpu_freq_hz: float) -> float:
    """Returns the energy of one local epoch, ``(alpha / 2) * eta * |D| * f**2``, in joules.

    Args:
        half_capacitance: alpha / 2 of the CPU.
        cycles_per_bit: eta.
        data_bits: The client's training samples, as bits.
        cpu_freq_hz: f.
    """
    _positive(half_capacitance=half_capacitance, cycles_per_bit=cycles_per_bit, cpu_freq_hz=cpu_freq_hz)
    _not_negative(data_bits=data_bits)
    return half_capacitance * cycles_per_bit * data_bits * cpu_freq_hz**2


def epoch_energy_j(
    num_samples: int,
    values_per_sample: int,
    cpu_freq_hz: float,
    *,
    half_capacitance: float = HALF_CAPACITANCE,
    cycles_per_bit: float = CYCLES_PER_BIT,
) -> float:
    """Returns the energy of one local epoch, in joules; for the arguments see ``round_energy_j``."""
    _not_negative(num_samples=num_samples, values_per_sample=values_per_sample)
    data_bits = BITS_PER_VALUE * num_samples * values_per_sample
    return computation_energy_j(half_capacitance, cycles_per_bit, data_bits, cpu_freq_hz)


def upload_energy_j(
    num_parameters: int,
    *,
    bandwidth_hz: float = BANDWIDTH_HZ,
    channel_gain: float = CHANNEL_GAIN,
    transmit_power_w: float = TRANSMIT_POWER_W,
    noise_w: float = NOISE_W,
) -> float:
    """Returns the energy of sending the model once, in joules; for the arguments see ``round_energy_j``."""
    _not_negative(num_parameters=num_parameters)
    rate_bps = uplink_rate_bps(bandwidth_hz, channel_gain, transmit_power_w, noise_w)
    return communication_energy_j(transmit_power_w, BITS_PER_VALUE * num_parameters, rate_bps)


def round_energy_j(
    num_parameters: int,
    num_samples: int,
    values_per_sample: int,
    cpu_freq_hz: float,
    epochs: int = 5,
    *,
    bandwidth_hz: float = BANDWIDTH_HZ,
    channel_gain: float = CHANNEL_GAIN,
    transmit_power_w: float = TRANSMIT_POWER_W,
    noise_w: float = NOISE_W,
    half_capacitance: float = HALF_CAPACITANCE,
    cycles_per_bit: float = CYCLES_PER_BIT,
) -> float:
    """Returns the energy of a client's round, in joules: one upload of the model and ``epochs`` local epochs.

    Args:
        num_parameters: Parameters of the model, frozen ones included, 32 bits each.
        num_samples: Training samples of the client.
        values_per_sample: Numbers per sample (784 for a 28x28 grey image), 32 bits each.
        cpu_freq_hz: CPU frequency of the client.
        epochs: Local epochs in the round.
        bandwidth_hz: B of the uplink.
        channel_gain: h.
        transmit_power_w: P.
        noise_w: sigma.
        half_capacitance: alpha / 2 of the CPU.
        cycles_per_bit: eta.
    """
    _not_negative(epochs=epochs)
    upload_j = upload_energy_j(
        num_parameters,
        bandwidth_hz=bandwidth_hz,
        channel_gain=channel_gain,
        transmit_power_w=transmit_power_w,
        noise_w=noise_w,
    )
    epoch_j = epoch_energy_j(
        num_samples, values_per_sample, cpu_freq_hz, half_capacitance=half_capacitance, cycles_per_bit=cycles_per_bit
    )
    return upload_j + epochs * epoch_j


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}; it must be a finite number above 0")


def _not_negative(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}; it must be a finite number of at least 0")
