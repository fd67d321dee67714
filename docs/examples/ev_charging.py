"""Electric cars under a transformer's limit: acnportal's simulator behind a ``ParallelEnv``, see docs/ev-charging.md.

A car that is plugged in and not full is an agent, which acts with the policy of its station. In every period of ten
minutes it charges or waits, and all pilots together must not exceed what the transformer has left.
"""

import tempfile
import warnings
from datetime import datetime

import gymnasium as gym
import numpy as np
from pettingzoo import ParallelEnv

from bippo_rllib import BippoConfig, ClientSelector

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # acnportal imports pkg_resources, which setuptools deprecates
    from acnportal import acnsim

STATIONS = acnsim.sites.caltech_acn().station_ids
HOURS = 1 / 6  #: Length of a period.
VOLTS, MAX_A = 208, 32
MAX_KW = VOLTS * MAX_A / 1000


def limit_kw(period):
    """Returns what the building leaves of 100 kW: 40 from 9 to 16 o'clock, 70 at other times."""
    return 40.0 if 9 <= period * HOURS < 16 else 70.0


class Garage(acnsim.ChargingNetwork):
    """A network with one limit, which changes by the hour."""

    period = -1

    def post_charging_update(self):
        """Moves to the next period; acnportal calls it at the end of each."""
        self.period += 1
        self.magnitudes = np.array([limit_kw(self.period) * 1000 / VOLTS])


def cars_of(day):
    """Returns the cars of a day, 50 on average, always the same for the same day: workers and visitors."""
    rng = np.random.default_rng([day, 25])
    number = rng.poisson(50)
    works = rng.random(number) < 0.7
    arrival_h = np.where(works, rng.normal(8.5, 1.0, number), rng.uniform(9.0, 16.0, number)).clip(5.0, 20.0)
    stay_h = np.where(works, rng.normal(8.0, 1.5, number), 0.5 + rng.exponential(2.0, number))
    demand_kwh = rng.lognormal(np.log(10.0), 0.6, number).clip(2.0, 60.0)
    free_from, cars = dict.fromkeys(STATIONS, 0), []
    for i in np.argsort(arrival_h):
        arrival, departure = (
            int(hour / HOURS) for hour in (arrival_h[i], min(23.5, arrival_h[i] + max(0.5, stay_h[i])))
        )
        free = [station for station, period in free_from.items() if period <= arrival]
        if free:  # else it drives on
            station = str(rng.choice(free))
            free_from[station] = departure + 1
            kwh = min(demand_kwh[i], 0.95 * (departure - arrival) * HOURS * MAX_KW)  # possible for a car alone
            battery = acnsim.Battery(kwh, 0.0, MAX_KW)
            cars.append(acnsim.EV(arrival, departure, kwh, station, f"{station}#{i}", battery))
    return cars


def simulation(day, scheduler=None):
    """Returns acnportal's simulator of a day; without a scheduler it stops in every period."""
    network = acnsim.sites.simple_acn(STATIONS, voltage=VOLTS, network_type=Garage)
    network.post_charging_update()
    events = [acnsim.PluginEvent(car.arrival, car) for car in cars_of(day)]
    events += [acnsim.RecomputeEvent(period) for period in range(int(24 / HOURS))]
    queue = acnsim.EventQueue(events)
    return acnsim.Simulator(network, scheduler, queue, datetime(2026, 1, 1), 60 * HOURS, verbose=False)


class ChargingDays(ParallelEnv):
    """Charging by the day. An episode is a day, the first one after ``reset(seed)`` has the number 1000 * seed.

    Args:
        reward: ``own``: the energy in kWh that a car would have lost, had it waited in this period, even if it charged
            in all later ones. ``team``: to all cars, minus the sum of it over those that waited.
    """

    metadata = {"name": "charging_days"}  # noqa: RUF012
    possible_agents = STATIONS  # their policies: the car "CA-322#7" acts with that of "CA-322"

    def __init__(self, reward="own"):
        self.reward, self.day, self.agents, self.shares = reward, 0, [], []
        self.spaces = gym.spaces.Box(-9.0, 9.0, (6,), np.float32), gym.spaces.Discrete(2)

    def observation_space(self, agent):
        """As all cars'."""
        return self.spaces[0]

    def action_space(self, agent):
        """Wait or charge."""
        return self.spaces[1]

    def reset(self, seed=None, options=None):
        """Starts the next day, or that of a seed."""
        self.day = self.day + 1 if seed is None else 1000 * seed
        self.sim = simulation(self.day)
        self._charge({})
        return self._observations(self.cars), self._infos()

    def step(self, actions):
        """Charges for a period those cars whose action is 1."""
        before, infos = self.cars, self._infos()
        self._charge({car.station_id: [infos[a]["kw"] * 1000 / VOLTS] for a, car in before.items() if actions[a]})
        lost = {agent: info["lost_kwh"] for agent, info in infos.items()}
        lost_by_all = sum(kwh for agent, kwh in lost.items() if not actions[agent])
        rewards = lost if self.reward == "own" else dict.fromkeys(before, -lost_by_all)
        gone = {agent: agent not in self.cars for agent in before}  # full, or driven away
        if not self.cars:
            self.shares.append(acnsim.proportion_of_energy_delivered(self.sim))
        return self._observations({**before, **self.cars}), rewards, dict.fromkeys(before, False), gone, self._infos()

    def _charge(self, pilots):
        """Simulates a period, and more until a car can charge: PettingZoo has no steps without agents."""
        self.cars = {}
        while not self.cars and not self.sim.event_queue.empty():
            self.sim._resolve = False  # as acnportal's own Gym interface does
            self.sim.step(pilots)
            pilots = {}
            self.cars = {car.session_id: car for car in self.sim.network.active_evs}
        self.agents = list(self.cars)

    def _infos(self):
        """Returns each car's cost, the budget, hours it can wait and still be full, and what waiting now loses."""
        infos, now = {}, self.sim.iteration
        for agent, car in self.cars.items():
            kwh, hours = car.remaining_demand, (car.departure - now) * HOURS
            kw = min(MAX_KW, kwh / HOURS)
            lost_kwh = min(kw * HOURS, max(0.0, kwh - (hours - HOURS) * MAX_KW))
            infos[agent] = {"kw": kw, "limit_kw": limit_kw(now), "laxity_h": hours - kwh / MAX_KW, "lost_kwh": lost_kwh}
        return infos

    def _observations(self, cars):
        now, rows = self.sim.iteration, {}
        waiting_kw = sum(min(MAX_KW, car.remaining_demand / HOURS) for car in self.cars.values())
        for agent, car in cars.items():
            kwh, hours = car.remaining_demand, (car.departure - now) * HOURS
            row = (
                hours / 8,
                kwh / 20,
                (hours - kwh / MAX_KW) / 2,
                now * HOURS / 24,
                limit_kw(now) / 100,
                waiting_kw / 300,
            )
            rows[agent] = np.clip(row, -9.0, 9.0).astype(np.float32)
        return rows


def train(seed, days, reward):
    """Trains; returns the share of energy delivered on each day, and what selects after it."""
    config = BippoConfig().environment(ChargingDays, env_config={"reward": reward})
    config.info_keys(cost="kw", budget="limit_kw").debugging(seed=seed, log_level="ERROR")
    if reward == "own":  # 0 where charging made no difference, so that it needs no critic
        config.selection(sampler="odds")
        config.training(use_critic=False, gamma=0.0, policy_batch_size=1, lr=3e-3, entropy_coeff=0.1)
    algo = config.build_algo()
    algo.train()  # a period
    while len(algo.parallel_env.shares) < days:
        algo.train()
    selector = ClientSelector.load(algo.save_to_path(tempfile.mkdtemp()))
    algo.stop()
    return algo.parallel_env.shares, lambda reports, kw: selector.select(reports, kw, explore=False)
