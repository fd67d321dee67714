"""All named scenarios, and the paper's numbers for them.

A scenario fixes what is compared (data, clients, devices, budget, rounds, target); a study chooses methods and seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from envs.rules.churn import JOIN, LEAVE, ChurnEvent
from envs.settings.energy import CHEAP_FREQ_HZ, EXPENSIVE_FREQ_HZ, paper_cpu_freq_hz
from experiments.scenario import PaperResult, Scenario

__all__ = ["OTHER_COMMANDS", "SCENARIOS", "PaperResult", "Scenario"]

# What all of the paper's experiments with 20 clients share (section 5.1 and its table of hyperparameters).
_PAPER: Mapping[str, Any] = {
    "num_clients": 20,
    "partition": "paper",
    "test_samples": 200,
    "local_epochs": 5,
    "batch_size": 32,
    "lr": 0.1,
}

DIGITS = Scenario(
    name="digits",
    description="scikit-learn's 1,797 handwritten digits, 20 non-IID clients, nothing to download",
    # Batch size and learning rate were chosen by FL with all clients (seed 7), before any method ran with them: 80 %
    # after about 5 rounds, 90 % after about 13. With a tenth of the energy, selection has tens of rounds to matter.
    federation={
        **_PAPER,
        "dataset": "digits",
        "model": "digits_cnn",
        "train_samples": 50,
        "test_samples": 20,
        "lr": 0.05,
        "budget_share": 0.107,
    },
    rounds=200,
    target_accuracy=0.80,
)

FASHION_MNIST = Scenario(
    name="fashion-mnist",
    description="the paper's main experiment: Fashion-MNIST, 20 non-IID clients, budget 10.7 % of all clients' energy",
    federation={**_PAPER, "dataset": "fashion_mnist", "model": "cnn", "train_samples": 1200, "budget_share": 0.107},
    rounds=200,
    target_accuracy=0.80,
    paper_section="5.2",
    paper={
        "bippo": PaperResult(43.0, 10.416, 0.779, 0.140),
        "fppo": PaperResult(41.75, 13.663, 0.787, 0.147),
        "ippo": PaperResult(66.75, 17.297, 0.751, 0.157),
        "ppo": PaperResult(43.0, 12.748, 0.759, 0.157),
        "fedavg": PaperResult(88.25, 41.342, 0.701, 0.158),
        "poca": PaperResult(None, None, 0.491, 0.163),
    },
)

CIFAR10 = Scenario(
    name="cifar10",
    description="CIFAR-10 with ResNet-18, 20 non-IID clients, budget 10 % of all clients' energy (needs a GPU)",
    federation={**_PAPER, "dataset": "cifar10", "model": "resnet18", "train_samples": 1000, "budget_share": 0.10},
    rounds=200,
    target_accuracy=0.40,
    paper_section="5.3",
    paper={
        "bippo": PaperResult(36.25, 9.808, 0.452, 0.096),
        "fppo": PaperResult(38.0, 9.67, 0.415, 0.105),
        "ippo": PaperResult(42.0, 13.019, 0.413, 0.121),
        "ppo": PaperResult(44.5, 16.286, 0.427, 0.121),
        "fedavg": PaperResult(80.25, 12.577, 0.352, 0.114),
        "poca": PaperResult(None, None, 0.226, 0.053),
    },
)

IMAGE_FOLDER = Scenario(
    name="image-folder",
    description="your own images, DIR/train/CLASS/* and DIR/test/CLASS/*, 20 non-IID clients, budget 10.7 %",
    federation={
        **_PAPER,
        "dataset": "image_folder",
        "model": "cnn",
        "train_samples": 100,
        "test_samples": 20,
        "budget_share": 0.107,
    },
    rounds=200,
    target_accuracy=0.80,
)

# The 20 clients of FASHION_MNIST, with the same data, devices and budget, and two more. Which balanced clients leave is
# not in the paper: a cheap and an expensive one, so that 8 cheap and 12 expensive clients are left, as at the start.
CHURN = Scenario(
    name="churn",
    description="fashion-mnist with two clients that join after round 100 and two that leave after round 150",
    federation={
        **FASHION_MNIST.federation,
        "num_clients": 22,
        "late_labels": (10, 1),
        "cpu_freq_hz": (*paper_cpu_freq_hz(20), CHEAP_FREQ_HZ, EXPENSIVE_FREQ_HZ),
    },
    rounds=200,
    target_accuracy=0.80,
    paper_section="5.5",
    paper={
        "bippo": PaperResult(43.0, 10.416, 0.784, 0.139),
        "fppo": PaperResult(41.75, 13.663, 0.767, 0.158),
        "ippo": PaperResult(66.75, 17.297, 0.754, 0.158),
        "ppo": PaperResult(43.0, 12.748, 0.739, 0.158),
        "fedavg": PaperResult(89.5, 43.396, 0.698, 0.160),
        "poca": PaperResult(None, None, 0.495, 0.160),
    },
    paper_accuracy="post-target accuracy",
    churn=(
        ChurnEvent(100, 20, JOIN),  # cheap, all labels
        ChurnEvent(100, 21, JOIN),  # expensive, one label
        ChurnEvent(150, 0, LEAVE),  # cheap, all labels
        ChurnEvent(150, 2, LEAVE),  # expensive, all labels
    ),
)

MEDIUM_FREQ_HZ = 1430e6

# The paper prints neither the sizes nor who has which device. Ours: 48 sizes evenly from 600 to 1,800, in an order (13
# is coprime to 48) in which every quarter has the mean 1,200; devices in turn, so that every quarter has four of each.
SCALABILITY = Scenario(
    name="scalability",
    description="Fashion-MNIST, 48 clients, three device types, 600 to 1,800 samples each, budget 11 %",
    federation={
        **FASHION_MNIST.federation,
        "num_clients": 48,
        "train_samples": tuple(round(600 + 1200 * (13 * client % 48) / 47) for client in range(48)),
        "cpu_freq_hz": (CHEAP_FREQ_HZ, MEDIUM_FREQ_HZ, EXPENSIVE_FREQ_HZ) * 16,
        "budget_share": 0.11,
    },
    rounds=300,
    target_accuracy=0.80,
    paper_section="5.6",
    paper={
        "bippo": PaperResult(110.333, 32.014, 0.709, 0.178),
        "fppo": PaperResult(72.667, 9.843, 0.736, 0.170),
        "ippo": PaperResult(201.333, 22.455, 0.657, 0.178),
        "ppo": PaperResult(197.333, 54.199, 0.678, 0.183),
        "fedavg": PaperResult(242.5, 57.5, 0.621, 0.164),
        "poca": PaperResult(None, None, 0.396, 0.133),
    },
)

# Section 5.4 has figures only, no row in the table: "an almost 10 % accuracy gain" of pretrained over untrained BIPPO.
TRANSFER = replace(
    CIFAR10,
    name="transfer",
    description="cifar10 for policies from fashion-mnist (--init-from); from scratch without (needs a GPU)",
    paper_section="5.4",
    paper={},
    pretrained_on="fashion-mnist",
)

# ResNet-18's 11 million parameters cost most of a cheap client's joules; without them computing counts for more, and a
# cheap client takes 17 %, an expensive one 72 % of the budget instead of 47 % and 52 %.
CIFAR10_SMALL = Scenario(
    name="cifar10-small",
    description="cifar10 with a CNN of 33,834 parameters and 2.8 million MACs, for a CPU",
    federation={**CIFAR10.federation, "model": "cnn_small_color"},
    rounds=200,
    target_accuracy=0.40,
)

TRANSFER_SMALL = replace(
    CIFAR10_SMALL,
    name="transfer-small",
    description="cifar10-small for policies from fashion-mnist (--init-from); from scratch without",
    pretrained_on="fashion-mnist",
)

# Not the paper's. In all quarters of the clients, with ten labels (1, 3), three (6, 8), two (12) and one (17), on cheap
# devices (1, 6) and expensive ones.
_NOISE: Mapping[str, Any] = {"noisy_clients": (1, 3, 6, 8, 12, 17), "label_noise": 1.0}

DIGITS_NOISY = replace(
    DIGITS,
    name="digits-noisy",
    description="digits, where six of the 20 clients have random training labels",
    federation={**DIGITS.federation, **_NOISE},
)

FASHION_MNIST_NOISY = replace(
    FASHION_MNIST,
    name="fashion-mnist-noisy",
    description="fashion-mnist, where six of the 20 clients have random training labels",
    federation={**FASHION_MNIST.federation, **_NOISE},
    paper_section=None,
    paper={},
)

# Not the paper's: the partitions that the field compares methods on.
_DIRICHLET: Mapping[str, Any] = {"partition": "dirichlet_over_labels", "alpha": 0.3}

DIGITS_DIRICHLET = replace(
    DIGITS,
    name="digits-dirichlet",
    description="digits, where each of the 20 clients draws its label mix from Dir(0.3)",
    federation={**DIGITS.federation, **_DIRICHLET},
)

FASHION_MNIST_DIRICHLET = replace(
    FASHION_MNIST,
    name="fashion-mnist-dirichlet",
    description="fashion-mnist, where each of the 20 clients draws its label mix from Dir(0.3)",
    federation={**FASHION_MNIST.federation, **_DIRICHLET},
    paper_section=None,
    paper={},
)

FASHION_MNIST_SHARDS = replace(
    FASHION_MNIST,
    name="fashion-mnist-shards",
    description="fashion-mnist, sorted by label and cut into 40 shards, two for each of the 20 clients",
    federation={**FASHION_MNIST.federation, "partition": "shards", "shards_per_client": 2},
    paper_section=None,
    paper={},
)

_ALL = (
    *(DIGITS, FASHION_MNIST, CIFAR10, TRANSFER, CHURN, SCALABILITY),
    *(CIFAR10_SMALL, TRANSFER_SMALL, IMAGE_FOLDER, DIGITS_NOISY, FASHION_MNIST_NOISY),
    *(DIGITS_DIRICHLET, FASHION_MNIST_DIRICHLET, FASHION_MNIST_SHARDS),
)
SCENARIOS: Mapping[str, Scenario] = MappingProxyType({scenario.name: scenario for scenario in _ALL})

#: Experiments of the paper that are not studies: command and description by name.
OTHER_COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "overhead": (
            "bippo benchmark rl",
            "wall-clock of the policies, 20 to 1,000 clients (section 5.7)",
        )
    }
)
