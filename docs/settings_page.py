"""The page of all settings, made of their declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reference_blocks import table

HEAD = """# Settings

<!-- Generated from envs/settings/ and bippo_rllib/config.py by docs/generate.py; edit those. -->

What `--set` takes, with the default values, which hold where nothing else is given; a scenario may give others. A
setting that nothing reads under the others that are given is refused.
"""
FEDERATION = """## Federation

`--set env.NAME=VALUE` in a study, `envs.parallel_env(NAME=VALUE)` and `envs.FederationConfig(NAME=VALUE)` in Python.
"""
ALGORITHM = """## Algorithm

`--set NAME=VALUE` in a study, a call of `BippoConfig` in Python. Methods start from other values where
[methods](methods.md) says so.
"""

#: RLlib describes them for its own batches.
PPO = {
    "lr": "Learning rate of Adam, for actors and critics.",
    "gamma": "Discount of later rewards.",
    "lambda_": "Lambda of generalized advantage estimation.",
    "clip_param": "Clipping of the probability ratio.",
    "num_epochs": "Passes over a policy's batch in an update.",
    "vf_loss_coeff": "Weight of the critic's loss.",
    "vf_clip_param": "Highest squared error of the critic that counts; None for no limit.",
    "entropy_coeff": "Weight of the entropy bonus.",
    "grad_clip": "Highest norm of a policy's gradient; None for no limit.",
    "use_critic": "Whether a critic is trained; without one, returns are the advantages.",
}


def settings_page() -> str:
    """Every setting of a federation and of the algorithm."""
    return "\n".join([HEAD, FEDERATION, *_federation(), ALGORITHM, *_algorithm()])


def _federation() -> Iterator[str]:
    from envs.config import FederationConfig, settings_by_group

    for title, settings in settings_by_group().items():
        yield f"### {title}\n"
        rows = []
        for name, each in settings.items():
            default = f"{_default(getattr(FederationConfig, name))} {each.unit}".strip()
            rows.append([f"`{name}`", default, f"{_markdown(each.text)} *Values*: {each.kind.values}."])
        yield table(["Setting", "Default", "What it is"], rows) + "\n"


def defaults_of(method: Any, config: Any) -> dict[str, Any]:
    """Returns the values that stand for a method's parameters if they are left out, by parameter."""
    from ray.rllib.utils.from_config import NotProvided

    # Sphinx puts the text of a default in its place, which prints as that.
    parameters = inspect.signature(method).parameters.values()
    missing = [p.name for p in parameters if p.default is NotProvided or repr(p.default) == "NotProvided"]
    found = {name: [key for key in (name, f"{name}_key") if hasattr(config, key)] for name in missing}
    return {name: getattr(config, keys[0]) for name, keys in found.items() if keys}


def _algorithm() -> Iterator[str]:
    from bippo_rllib import BippoConfig

    config = BippoConfig()
    methods = {name: method for base in BippoConfig.__mro__ if _is_ours(base) for name, method in vars(base).items()}
    for name, method in methods.items():
        if inspect.isfunction(method) and (defaults := defaults_of(method, config)):
            yield f"### `BippoConfig.{name}`\n"
            yield _values(defaults, _meanings(method))
    yield "### Learning rate and PPO\n"
    yield _values({name: getattr(config, name) for name in PPO}, PPO)


def _is_ours(base: type) -> bool:
    return base.__module__.startswith("bippo_rllib.")


def _values(defaults: Mapping[str, Any], meanings: Mapping[str, str]) -> str:
    rows = [[f"`{name}`", _default(value), meanings.get(name, "")] for name, value in defaults.items()]
    return table(["Setting", "Default", "What it is"], rows) + "\n"


def _meanings(method: Any) -> dict[str, str]:
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(method) or "", re.MULTILINE)
    return {name: _markdown(" ".join(text.split())) for name, text in found}


def _default(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else str(value)


def _markdown(text: str) -> str:
    return text.replace("``", "`")
