"""Compares what ``ev_charging.py`` trains with acnportal's schedulers, on days not trained on: a table and a figure."""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from acnportal import algorithms
from ev_charging import HOURS, ChargingDays, acnsim, limit_kw, simulation, train

from bippo_rllib import BudgetSampler

BASELINES = {
    "uncontrolled": algorithms.UncontrolledCharging,
    "first come, first served": lambda: algorithms.SortedSchedulingAlgo(algorithms.first_come_first_served),
    "round robin": lambda: algorithms.RoundRobin(algorithms.first_come_first_served, continuous_inc=1),
    "earliest deadline first": lambda: algorithms.SortedSchedulingAlgo(algorithms.earliest_deadline_first),
    "least laxity first": lambda: algorithms.SortedSchedulingAlgo(algorithms.least_laxity_first),
}


def by_laxity(strategy, seed=0):
    """Returns what selects without policies."""
    sampler = BudgetSampler(strategy, seed=seed)

    def select(reports, kw):
        scores, costs = zip(*((-report["laxity_h"], report["kw"]) for report in reports.values()), strict=True)
        return [list(reports)[i] for i in sampler.select(scores, costs, kw)]

    return select


def run(day, select):
    """Returns acnportal's simulator after a day on which ``select`` said which cars charge, at full power or not."""
    env = ChargingDays()
    env.day = day - 1
    observations, infos = env.reset()
    while env.agents:
        reports = {a: {"observation": observations[a], "cost_j": infos[a]["kw"], **infos[a]} for a in env.agents}
        chosen = set(select(reports, limit_kw(env.sim.iteration)))
        observations, _, _, _, infos = env.step({agent: agent in chosen for agent in env.agents})
    return env.sim


def run_baseline(day, name):
    """Likewise with one of acnportal's schedulers, which set any pilot between 0 and 32 A."""
    sim = simulation(day, BASELINES[name]())
    sim.run()
    return sim


def numbers(sims):
    """Returns energy delivered in time and cars full in time as shares, highest kW, and hours a day over the limit."""
    power = [acnsim.aggregate_power(sim) for sim in sims]
    over_h = [sum(kw > limit_kw(t) + 0.01 for t, kw in enumerate(day)) * HOURS for day in power]
    shares = [
        np.mean([f(sim) for sim in sims])
        for f in (acnsim.proportion_of_energy_delivered, acnsim.proportion_of_demands_met)
    ]
    return [*shares, max(day.max() for day in power), np.mean(over_h)]


def figure(days, curves, path):
    """Draws the power over a day by method, and how the share delivered rises in training."""
    left, right = (fig := plt.figure(figsize=(11, 3.8), layout="constrained")).subplots(1, 2)
    for name, sim in days.items():
        kw = acnsim.aggregate_power(sim)
        left.step(np.arange(len(kw)) * HOURS, kw, where="post", label=name, linewidth=1)
    left.step(np.arange(145) * HOURS, [limit_kw(t) for t in range(145)], "k--", where="post", label="limit")
    left.set(xlabel="hour of the day", ylabel="charging power (kW)", xlim=(5, 24))
    for reward, gains in curves.items():
        smooth = np.array(
            [np.convolve(gain, np.full(width := min(5, len(gain)), 1 / width), "valid") for gain in gains]
        )
        days_done = np.arange(width, width + smooth.shape[1])
        right.plot(days_done, smooth.mean(0), label=f"reward: {reward}")
        right.fill_between(days_done, smooth.min(0), smooth.max(0), alpha=0.2)
    right.axhline(0.0, color="k", linestyle=":", label="random, on or off")
    right.set(xlabel="day of training", ylabel="energy in time, more than random's\non the same days (mean of 5)")
    for axes in (left, right):
        axes.legend(fontsize="small")
    fig.savefig(path, dpi=150)


def main(arguments=None):
    """Trains, compares on days not trained on, prints a table and draws a figure."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--days", type=int, default=40, help="days of training (40)")
    parser.add_argument("--test-days", type=int, default=8, help="days to compare on, none of those trained on (8)")
    parser.add_argument("--figure", type=Path, default=Path("ev-charging.png"))
    options = parser.parse_args(arguments)
    days = range(10**6, 10**6 + options.test_days)
    sims = {name: [[run_baseline(day, name) for day in days]] for name in BASELINES}
    sims["least laxity, on or off"] = [[run(day, by_laxity("greedy")) for day in days]]
    sims["random, on or off"] = [[run(day, by_laxity("random", s)) for day in days] for s in options.seeds]
    train_days = [range(1000 * seed, 1000 * seed + options.days) for seed in options.seeds]
    random = [
        [acnsim.proportion_of_energy_delivered(run(day, by_laxity("random", seed))) for day in seed_days]
        for seed, seed_days in zip(options.seeds, train_days, strict=True)
    ]
    curves = {}
    for reward in ("own", "team"):
        shares, selects = zip(*(train(seed, options.days, reward) for seed in options.seeds), strict=True)
        curves[reward] = np.subtract(shares, random)
        sims[f"BIPPO, reward: {reward}"] = [[run(day, select) for day in days] for select in selects]
    print(f"{'':26} {'energy in time':>17} {'cars full':>10} {'peak kW':>8} {'over limit h':>12}")
    for name, runs in sims.items():
        values = np.array([numbers(run) for run in runs])
        energy, full, peak, over_h = values.mean(0)
        spread = f" ± {values[:, 0].std(ddof=1):.3f}" if len(runs) > 1 else ""
        print(f"{name:26} {energy:9.3f}{spread:8} {full:10.3f} {peak:8.1f} {over_h:12.2f}")
    shown = ("uncontrolled", "least laxity first", "BIPPO, reward: own")
    figure({name: sims[name][0][0] for name in shown}, curves, options.figure)
    return sims


if __name__ == "__main__":
    main()
