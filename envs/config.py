"""What a federation is made of: a frozen dataclass, validated on construction. Imports no torch."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any

from envs.checks import absolute_path, one_per_client, share
from envs.config_checks import FORMULA, check_fields, check_shards
from envs.dataset_defaults import DATASET_DEFAULTS, OWN_DATASET_DEFAULTS, DatasetDefaults, absolute_data_dir
from envs.execution import Execution
from envs.rules.churn import ChurnEvent, ChurnSchedule, MarkovChurn, ScheduledChurn, check_events
from envs.rules.churn_trace import read_trace
from envs.rules.device_change import DeviceChange

#: The paper's CPU frequencies.
CHEAP_FREQ_HZ = 700e6
EXPENSIVE_FREQ_HZ = 1500e6


@dataclass(frozen=True)
class FederationConfig:
    """A federation. Every field has a default; where that is None, the properties below give what it stands for.

    Lists are taken as tuples.

    Args:
        dataset: ``digits``, ``fashion_mnist``, ``cifar10``, ``image_folder`` or ``mypackage:load``, a function of
            ``data_dir`` (a path or None) that returns a ``Dataset``.
        data_dir: Where the data lies; None for ``$BIPPO_DATA``, as it is on construction. Not needed for digits.
        model: ``digits_cnn``, ``cnn``, ``cnn_small_color``, ``resnet18`` or ``mypackage:build``, a function of
            ``(input_shape, num_classes)`` that returns a torch module; None for the data set's own.
        num_clients: Clients, at least 1; those that are absent at times are counted and hold data from the start.
        partition: ``paper`` (a quarter of the clients each with all, three, two labels, one label),
            ``dirichlet_over_clients`` (each class is split over the clients by Dir(alpha); sizes differ; Yurochkin et
            al. 2019, the one of NIID-Bench), ``dirichlet_over_labels`` (each client draws its own label mix from
            Dir(alpha); sizes as asked for; Hsu et al. 2019), ``shards`` (samples sorted by label are cut into shards
            of equal size, of which each client gets ``shards_per_client`` at random) or ``iid`` (samples are shuffled
            and cut; both McMahan et al. 2017). The seed changes which samples of a label a client gets, not how many.
        alpha: Concentration of the two Dirichlet partitions; None for 0.5.
        shards_per_client: Shards of each client with ``shards``; None for 2.
        late_labels: With ``paper``: how many labels each of the last clients holds, one number for each such client.
            They are in no quarter and get their samples after all others, whose data is the same as without them:
            for clients that join later. ``cpu_freq_hz`` must then be given.
        train_samples: Training samples per client, one number or one per client; None for the data set's own. With
            ``dirichlet_over_clients`` one number, the mean, and with ``shards`` one number.
        test_samples: Test samples per client, one number or one per client; None for the data set's own. They have
            the client's own labels: with ``shards`` and ``iid`` in the mix that it trains on, else in equal parts.
            Where the test split has fewer of a class than all clients would take, it is divided in proportion to what
            they would take, with at least one for each of them if there are as many, and their test sets are smaller.
            Each has at least one sample, and none is used twice.
        noisy_clients: Ids of clients with wrong training labels; their test labels are right. A constant of the
            scenario: the seed changes which labels are wrong and how, not whose.
        label_noise: Share of a noisy client's training labels that is drawn anew, uniformly over all classes.
        cpu_freq_hz: ``[num_clients]`` CPU frequencies; None for the paper's, in each quarter 2 of 5 clients at
            700 MHz and the rest at 1,500 MHz.
        device_changes: Clients whose frequency, and so cost, changes during a run; not with ``energy_meter``.
        churn: ``ChurnEvent(round, client, kind)`` for each time a client joins or leaves at the end of a round from 1
            to ``rounds - 1``, in any order. A client whose first event is a join is absent before it; all others are
            live at the start.
        churn_trace: Instead of ``churn``: a CSV file of stays, read on construction
            and again where the rounds run. See ``envs.rules.churn_trace``.
        churn_leave_rate: Instead of either: the probability that a live client leaves at the end of a round, one number
            or one per client. All are live at the start.
        churn_return_rate: The probability that a client that left returns at the end of a round, likewise.
        rounds: FL rounds of an episode, round 0 not counted.
        local_epochs: Epochs a selected client trains in a round.
        batch_size: Local batch size; None for the data set's own.
        lr: Learning rate of the local SGD; None for the data set's own.
        budget_share: Budget of a round as a share of what one round of all clients live at the start costs then. In
            joules it stays the same, whoever joins or leaves.
        budget_j: Budget in joules, instead of the share: ``math.inf`` for no limit; 0 means that nobody ever trains.
        probing_epochs: What every live client spends in every round to report its loss or accuracy, in local epochs:
            only computing, taken out of the budget. 1/3 is a forward pass over its training samples, as a backward pass
            costs about two; 0, the paper's, charges nothing.
        energy_meter: What a client's computing costs: ``formula`` (the paper's), or what is read while it trains, by
            ``nvml``, ``rapl`` or ``mypackage:joules``; see ``envs.training.energy_meter``.
        joules_per_mac: What a multiply-accumulate of the selector takes, in joules; 0, the paper's, charges none.
        selector_macs: MACs of the selector in a round: for each live client, and beside it for each that trains.
        reward: ``accuracy_change`` (the paper's) or ``accuracy_target``, both the team's; or each participant's own
            effect, ``leave_one_out`` or ``shapley`` (see ``envs.rules``).
        reward_base: Lambda of any reward.
        reward_target: Target accuracy of ``accuracy_target``.
        credit_clients: Clients that evaluate the models of ``leave_one_out`` and ``shapley``, drawn anew in every
            round; None for all.
        shapley_pairs: Pairs of orders that ``shapley`` draws where more than three clients train.
        with_loss: Also compute each client's mean cross-entropy on its training samples, info ``loss``.
        with_label_counts: Also report how many training samples of each class every client has, as it labels them,
            info ``label_counts``. No real client gives that away; for bounds and for methods that ask for it.
        update_profile_size: Numbers in the sketch of a client's update, info ``update_profile``; 0 sketches none.
        with_output_bias: Also report what a client's training changed of the output layer's bias, info
            ``output_bias_update``; the bias must be the model's last parameter.
        with_update_norm: Also report the Euclidean length of a client's update, info ``update_norm``.
        on_overrun: ``raise`` an error if the selection exceeds the budget, or ``drop`` what does not fit.
        seed: Seed of an env that is reset without one.
        device: torch device of the training, such as ``cpu`` or ``cuda:0``; Ray actors use the one Ray gives them.
        executor: Who trains: ``serial`` (this process), ``ray`` (Ray actors) or ``auto`` (Ray actors where Ray runs and
            has GPUs for them, else serial). Same results to the last bit on CPU; see ``envs.training.ray_executor``.
        num_actors: Ray actors; None for one per GPU, or 2 where there is none.
        cpus_per_actor: Cores each actor takes.
        gpus_per_actor: GPUs each actor takes, a share below 1 or a whole number; None for an equal share of all.
        on_client_failure: ``raise`` an error if a client's training raises or becomes NaN, or ``drop`` the client: it
            is not averaged and has not taken part, but its energy is spent.
        torch_threads: Threads in which a client is trained or evaluated, in this process and in each actor; another
            number changes results in the last bits. With several, give an actor as many ``cpus_per_actor``.
        mixed_precision: Forward passes in bfloat16. Results differ slightly.
        compile: Run the network through ``torch.compile``; the first round then takes long. Results differ slightly.

    Raises:
        ValueError: If a field is out of range; the message names it.
    """

    dataset: str = "digits"
    data_dir: str | None = None
    model: str | None = None
    num_clients: int = 20
    partition: str = "paper"
    alpha: float | None = None
    shards_per_client: int | None = None
    late_labels: tuple[int, ...] = ()
    train_samples: int | tuple[int, ...] | None = None
    test_samples: int | tuple[int, ...] | None = None
    noisy_clients: tuple[int, ...] = ()
    label_noise: float = 1.0
    cpu_freq_hz: tuple[float, ...] | None = None
    device_changes: tuple[DeviceChange, ...] = ()
    churn: tuple[ChurnEvent, ...] = ()
    churn_trace: str | None = None
    churn_leave_rate: float | tuple[float, ...] = 0.0
    churn_return_rate: float | tuple[float, ...] = 0.0
    rounds: int = 200
    local_epochs: int = 5
    batch_size: int | None = None
    lr: float | None = None
    budget_share: float = 0.107
    budget_j: float | None = None
    probing_epochs: float = 0.0
    energy_meter: str = FORMULA
    joules_per_mac: float = 0.0
    selector_macs: tuple[float, float] = (0.0, 0.0)
    reward: str = "accuracy_change"
    reward_base: float = 64.0
    reward_target: float = 0.8
    credit_clients: int | None = None
    shapley_pairs: int = 1
    with_loss: bool = False
    with_label_counts: bool = False
    update_profile_size: int = 0
    with_output_bias: bool = False
    with_update_norm: bool = False
    on_overrun: str = "raise"
    seed: int = 0
    device: str = "cpu"
    executor: str = "auto"
    num_actors: int | None = None
    cpus_per_actor: float = 1.0
    gpus_per_actor: float | None = None
    on_client_failure: str = "raise"
    torch_threads: int = 1
    mixed_precision: bool = False
    compile: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, list):
                object.__setattr__(self, name, tuple(value))
        check_fields(vars(self))
        if self.partition == "shards":
            check_shards(self.client_shards, self.train_sizes[0])
        object.__setattr__(self, "data_dir", absolute_data_dir(self.data_dir))
        if self.churn_trace:
            object.__setattr__(self, "churn_trace", absolute_path("churn_trace", self.churn_trace))
        _ = self.execution  # checks its fields
        self.churn_schedule()

    @property
    def model_name(self) -> str:
        """``model``, or the data set's own."""
        return self._defaults.model if self.model is None else self.model

    @property
    def local_batch_size(self) -> int:
        """``batch_size``, or the data set's own."""
        return self._defaults.batch_size if self.batch_size is None else self.batch_size

    @property
    def learning_rate(self) -> float:
        """``lr``, or the data set's own."""
        return self._defaults.lr if self.lr is None else self.lr

    @property
    def dirichlet_alpha(self) -> float:
        """``alpha``, or 0.5."""
        return 0.5 if self.alpha is None else self.alpha

    @property
    def client_shards(self) -> int:
        """``shards_per_client``, or 2."""
        return 2 if self.shards_per_client is None else self.shards_per_client

    @property
    def train_sizes(self) -> tuple[int, ...]:
        """``[num_clients]`` training samples asked for."""
        return self._sizes(self.train_samples, self._defaults.train_samples)

    @property
    def test_sizes(self) -> tuple[int, ...]:
        """``[num_clients]`` test samples asked for."""
        return self._sizes(self.test_samples, self._defaults.test_samples)

    @property
    def start_freq_hz(self) -> tuple[float, ...]:
        """``[num_clients]`` CPU frequencies at the start."""
        return paper_cpu_freq_hz(self.num_clients) if self.cpu_freq_hz is None else self.cpu_freq_hz

    @property
    def mislabelled_clients(self) -> tuple[int, ...]:
        """``noisy_clients``, or nobody where ``label_noise`` is 0."""
        return self.noisy_clients if self.label_noise else ()

    @property
    def update_reports(self) -> tuple[str, ...]:
        """Info keys of what is asked about the updates of clients that trained."""
        asked = {
            "update_profile": self.update_profile_size > 0,
            "output_bias_update": self.with_output_bias,
            "update_norm": self.with_update_norm,
        }
        return tuple(key for key, is_asked in asked.items() if is_asked)

    @property
    def execution(self) -> Execution:
        """Who trains, as one value."""
        return Execution(self.executor, self.num_actors, self.cpus_per_actor, self.gpus_per_actor, self.device)

    def churn_schedule(self) -> ChurnSchedule:
        """Who joins and leaves when; reads ``churn_trace``.

        Raises:
            ValueError: If it is said in two ways, or the trace cannot be read.
        """
        rates = {name: self._rates(name) for name in ("churn_leave_rate", "churn_return_rate")}
        random = [name for name, values in rates.items() if any(values)][:1]
        ways = [name for name in ("churn", "churn_trace") if getattr(self, name)] + random
        if len(ways) > 1:
            raise ValueError(f"{ways[0]} and {ways[1]} are both given; choose one way to say who joins and leaves")
        if random:
            leave, come_back = rates.values()
            if not any(leave):
                raise ValueError(
                    f"churn_return_rate is {self.churn_return_rate} and churn_leave_rate 0, so that nobody leaves and "
                    "nobody can return; give both, or neither"
                )
            return MarkovChurn(leave, come_back)
        events = self.churn
        if self.churn_trace:
            events = read_trace(self.churn_trace, self.num_clients)
        else:
            check_events(events, self.num_clients, self.rounds)
        return ScheduledChurn(events, self.num_clients, self.rounds)

    def _rates(self, name: str) -> tuple[float, ...]:
        value = getattr(self, name)
        rates = one_per_client(name, value, self.num_clients) if isinstance(value, tuple) else (value,)
        for rate in rates:
            share(name, rate)
        return rates if isinstance(value, tuple) else rates * self.num_clients

    @property
    def _defaults(self) -> DatasetDefaults:
        return DATASET_DEFAULTS.get(self.dataset, OWN_DATASET_DEFAULTS)

    def _sizes(self, samples: int | tuple[int, ...] | None, default: int) -> tuple[int, ...]:
        return samples if isinstance(samples, tuple) else (samples or default,) * self.num_clients


def config_from(**fields: Any) -> FederationConfig:
    """``FederationConfig(**fields)`` with a ``ValueError`` that suggests the field meant for an unknown one."""
    names = [field.name for field in dataclasses.fields(FederationConfig)]
    for name in fields:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=3) or [known for known in names if known in name]
            hint = f"did you mean {' or '.join(close)}?" if close else f"known are {', '.join(names)}"
            raise ValueError(f"unknown setting {name!r}; {hint}")
    return FederationConfig(**fields)


def paper_cpu_freq_hz(num_clients: int) -> tuple[float, ...]:
    """In each quarter of the clients the first 2 of every 5 are cheap: ids 0, 1, 5, 6, 10, 11, 15, 16 of 20."""
    freqs = []
    for quarter in range(4):
        size = sum(1 for client in range(num_clients) if 4 * client // num_clients == quarter)
        freqs += [CHEAP_FREQ_HZ if place % 5 < 2 else EXPENSIVE_FREQ_HZ for place in range(size)]
    return tuple(freqs)
