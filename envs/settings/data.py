"""Settings of a federation's data: the data set, the model, and who holds which samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envs.checks import SettingError, positive, whole
from envs.dataset_defaults import DATASET_DEFAULTS, OWN_DATASET_DEFAULTS, DatasetDefaults
from envs.settings.setting import (
    NATURAL,
    PATH,
    SHARE,
    choice,
    number_or_one_per_client,
    only_if,
    only_with,
    or_none,
    setting,
    simple,
    tuple_of,
)

DIRICHLET = ("dirichlet_over_clients", "dirichlet_over_labels")
#: By labels and sizes.
PARTITIONS = ("paper", *DIRICHLET, "shards", "iid")
BY_USER = "natural"
MODELS = ("digits_cnn", "cnn", "cnn_small_color", "resnet18")
#: Partitions that make the clients' sizes of one number.
_OF_ONE_SIZE = {"dirichlet_over_clients": "one number, the mean,", "shards": "one number"}


def _alpha(name: str, value: Any) -> None:
    positive(name, value)
    if value > 1e9:  # beyond it shares differ by rounding alone, and at last the draws overflow
        raise SettingError(name, value, "it must be at most 1e9, where all shares are equal")


def _sizes_given(settings: Mapping[str, Any]) -> str | None:
    partition = settings["partition"]
    return None if partition in PARTITIONS else f"partition={partition!r} sets the sizes; leave it out"


@dataclass(frozen=True)
class DataSettings:
    """The data set, the model, and who holds which samples."""

    dataset: str = setting(
        "digits",
        choice(DATASET_DEFAULTS, custom=True),
        """The data set. ``MODULE:NAME`` is a function of ``data_dir`` (a path or None) that returns a ``Dataset``.""",
    )
    data_dir: str | None = setting(
        None,
        PATH,
        """Where the data lies; None for ``$BIPPO_DATA``, as it is on construction. Not needed for digits.""",
    )
    model: str | None = setting(
        None,
        or_none(choice(MODELS, custom=True)),
        """The network; None for the data set's own. ``MODULE:NAME`` is a function of ``(input_shape, num_classes)``
        that returns a torch module.""",
    )
    num_clients: int = setting(
        20, NATURAL, "Clients; those that are absent at times are counted and hold data from the start."
    )
    partition: str = setting(
        "paper",
        choice((*PARTITIONS, BY_USER), custom=True),
        """Who holds which samples. ``paper``: a quarter of the clients each with all, three, two labels, one label.
        ``dirichlet_over_clients``: each class is split over the clients by Dir(alpha), so that sizes differ (Yurochkin
        et al. 2019, the one of NIID-Bench). ``dirichlet_over_labels``: each client draws its own label mix from
        Dir(alpha), with the sizes requested (Hsu et al. 2019). ``shards``: samples sorted by label are cut into shards
        of equal size, of which each client gets ``shards_per_client`` at random. ``iid``: samples are shuffled and cut
        (both McMahan et al. 2017). ``natural``: the first ``num_clients`` users of the data set hold what is theirs.
        ``MODULE:NAME`` is a function of ``(dataset, num_clients, seed)`` that returns the indices of each client's
        samples, for training and for testing. The seed changes which samples of a label a client gets, not their
        number.""",
    )
    alpha: float | None = setting(
        None,
        or_none(simple(_alpha, "a number above 0 and up to 1e9")),
        "Concentration of the Dirichlet partitions; None for 0.5.",
        unread=only_with("partition", *DIRICHLET),
    )
    shards_per_client: int | None = setting(
        None, or_none(NATURAL), "Shards of each client; None for 2.", unread=only_with("partition", "shards")
    )
    late_labels: tuple[int, ...] = setting(
        (),
        tuple_of("numbers of labels"),
        """How many labels each of the last clients holds, one number for each such client. They are in no quarter and
        get their samples after all others, whose data is the same as without them: for clients that join later.
        ``cpu_freq_hz`` must then be given.""",
        unread=only_with("partition", "paper"),
    )
    train_samples: int | tuple[int, ...] | None = setting(
        None,
        number_or_one_per_client(or_none(NATURAL)),
        """Training samples of each client; None for the data set's own number. With ``dirichlet_over_clients`` the
        mean, one number, and with ``shards`` one number.""",
        unread=_sizes_given,
    )
    test_samples: int | tuple[int, ...] | None = setting(
        None,
        number_or_one_per_client(or_none(NATURAL)),
        """Test samples of each client; None for the data set's own number. They have the client's own labels: with
        ``shards`` and ``iid`` in the mix that it trains on, else in equal parts. Where the test split has fewer of a
        class than all clients would take, it is divided in proportion to what they would take, with at least one for
        each of them if there are as many, and their test sets are smaller. Each has at least one sample, and none is
        used twice.""",
        unread=_sizes_given,
    )
    noisy_clients: tuple[int, ...] = setting(
        (),
        tuple_of("client ids"),
        """Clients with wrong training labels; their test labels are right. A constant of the scenario: the seed changes
        which labels are wrong and how, not whose.""",
    )
    label_noise: float = setting(
        1.0,
        SHARE,
        "Share of a noisy client's training labels that is drawn anew, uniformly over all classes.",
        unread=only_if("noisy_clients"),
    )

    @property
    def model_name(self) -> str:
        """Returns ``model``, or the data set's own."""
        return self._defaults.model if self.model is None else self.model

    @property
    def dirichlet_alpha(self) -> float:
        """Returns ``alpha``, or 0.5."""
        return 0.5 if self.alpha is None else self.alpha

    @property
    def client_shards(self) -> int:
        """Returns ``shards_per_client``, or 2."""
        return 2 if self.shards_per_client is None else self.shards_per_client

    @property
    def train_sizes(self) -> tuple[int, ...]:
        """Returns the ``[num_clients]`` training samples requested."""
        return self._sizes(self.train_samples, self._defaults.train_samples)

    @property
    def test_sizes(self) -> tuple[int, ...]:
        """Returns the ``[num_clients]`` test samples requested."""
        return self._sizes(self.test_samples, self._defaults.test_samples)

    @property
    def mislabelled_clients(self) -> tuple[int, ...]:
        """Returns ``noisy_clients``, or none where ``label_noise`` is 0."""
        return self.noisy_clients if self.label_noise else ()

    @property
    def _defaults(self) -> DatasetDefaults:
        return DATASET_DEFAULTS.get(self.dataset, OWN_DATASET_DEFAULTS)

    def _sizes(self, samples: int | tuple[int, ...] | None, default: int) -> tuple[int, ...]:
        return samples if isinstance(samples, tuple) else (samples or default,) * self.num_clients

    def _check_data(self) -> None:
        if self.partition in _OF_ONE_SIZE and isinstance(self.train_samples, tuple):
            expected = f"it must be {_OF_ONE_SIZE[self.partition]} with partition={self.partition!r}"
            raise SettingError("train_samples", self.train_samples, expected)
        for number_of_labels in self.late_labels:
            whole("late_labels", number_of_labels, least=1)
        if len(self.late_labels) >= self.num_clients:
            others = f"it has an entry for all {self.num_clients} clients; leave at least one without"
            raise SettingError("late_labels", self.late_labels, others)
        for client in self.noisy_clients:
            whole("noisy_clients", client, least=0)
            if client >= self.num_clients:
                raise SettingError("noisy_clients", self.noisy_clients, f"clients go from 0 to {self.num_clients - 1}")
        if len(set(self.noisy_clients)) < len(self.noisy_clients):
            raise SettingError("noisy_clients", self.noisy_clients, "name each client once")
        if self.partition == "shards" and self.client_shards > self.train_sizes[0]:
            too_few = f"a client has {self.train_sizes[0]} training samples; lower it, or raise train_samples"
            raise SettingError("shards_per_client", self.client_shards, too_few)
