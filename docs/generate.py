"""Rebuilds what comes from the code: ``python docs/generate.py``."""

from __future__ import annotations

import functools
import inspect
import sys
from pathlib import Path

from reference_blocks import fill, infos_table
from settings_page import settings_page
from tutorial_notebook import notebook

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))


def filled_page(name: str) -> str:
    """A page of one's own writing, with the parts of it that come from the code."""
    return fill((DOCS / name).read_text(encoding="utf-8"))


def first_selection_notebook() -> str:
    """The first tutorial as a notebook."""
    return notebook((DOCS / "first-selection.md").read_text(encoding="utf-8"))


def environment_page() -> str:
    """The specification of the environment, from the docstrings of ``envs``."""
    from envs import FederatedRounds, federated_rounds
    from envs.rules import churn, churn_trace, leave_one_out, shapley
    from envs.training import energy_meter

    specification = inspect.getdoc(federated_rounds)
    title, _, body = specification.partition("\n\n")
    return "\n".join(
        [
            "# The environment",
            "",
            "<!-- Generated from the docstrings of envs/ by docs/generate.py; edit those. -->",
            "",
            title.replace("FederatedRounds:", "`envs.FederatedRounds`:"),
            "",
            body.replace("``", "`"),
            "",
            _EXAMPLE,
            "## Infos",
            "",
            infos_table(),
            "",
            "## Coming and going",
            "",
            _as_markdown(inspect.getdoc(churn).partition("\n\n")[2].partition("\n\nA client has")[0]),
            "",
            "Events are given in Python, `envs.parallel_env(churn=(envs.ChurnEvent(100, 3, 'leave'),))`; rates and",
            "trace files also on the command line.",
            "",
            _as_markdown(inspect.getdoc(churn_trace)).replace("Reads a churn schedule from", "A trace file is"),
            "",
            "## Rewards",
            "",
            "`env.reward` names the reward, one of the [settings](settings.md#reward-and-reports); it may be a",
            "[custom one](your-own.md).",
            "",
            "## Leave-one-out rewards",
            "",
            _as_markdown(inspect.getdoc(leave_one_out).partition("\n\n")[2]),
            "",
            "## Shapley rewards",
            "",
            _as_markdown(inspect.getdoc(shapley).partition("\n\n")[2]),
            "",
            "## Measured energy",
            "",
            _as_markdown(inspect.getdoc(energy_meter).partition("\n\n")[2]),
            "",
            "## FederatedRounds",
            "",
            _as_markdown(inspect.getdoc(FederatedRounds)),
            "",
            "All keywords of `envs.parallel_env` are on the page of [settings](settings.md#federation).",
            "",
        ]
    )


def _as_markdown(docstring: str) -> str:
    """Google-style sections as bold words and lists."""
    lines = []
    for line in docstring.splitlines():
        if line in ("Args:", "Attributes:", "Raises:", "Returns:"):
            lines += [f"**{line[:-1]}**", ""]
        elif line.startswith("    ") and not line.startswith("     ") and ":" in line:
            name, _, text = line.strip().partition(":")
            lines.append(f"- `{name}`:{text}")
        elif line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line.replace("``", "`").removesuffix(":") if line.endswith("::") else line.replace("``", "`"))
    return "\n".join(lines).replace("``", "`")


_EXAMPLE = """## Without RLlib

```python
import envs
from bippo_rllib import BudgetSampler

env, sampler = envs.parallel_env(rounds=20), BudgetSampler("random", seed=7)
observations, infos = env.reset(seed=7)
while env.agents:
    costs = [infos[agent]["cost"] for agent in env.agents]
    budget = infos[env.agents[0]]["budget"]
    chosen = sampler.select([0.0] * len(costs), costs, budget)  # positions in env.agents
    actions = {env.agents[i]: 1 for i in chosen}
    observations, rewards, terminations, truncations, infos = env.step(actions)
    print(env.last_round.round, env.last_round.mean_accuracy, env.last_round.energy_j)
```
"""

PAGES = {
    "environment.md": environment_page,
    "settings.md": settings_page,
    "first-selection.ipynb": first_selection_notebook,
}
for _name in ("commands.md", "energy-model.md", "metrics.md"):
    PAGES[_name] = functools.partial(filled_page, _name)

if __name__ == "__main__":
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
        print(DOCS / name)
