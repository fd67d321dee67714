"""A ``PPOConfig`` whose settings survive RLlib's states and dicts, Tune, copies and pickles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from ray.rllib.algorithms.algorithm_config import NotProvided
from ray.rllib.algorithms.ppo.ppo import PPOConfig

from bippo_rllib.runners.parallel_env import rllib_env

if TYPE_CHECKING:
    from typing_extensions import Self

#: Key of the class in ``to_dict``.
CONFIG_CLASS = "config_class"

#: Attributes that RLlib sets itself when it restores a state.
_NOT_IN_STATE = frozenset({"algo_class", "_is_frozen"})


class PortableConfig(PPOConfig):
    """Base of ``BippoConfig``: PPO's settings, none of which is lost or changed on the way to an algorithm."""

    def __setattr__(self, key: str, value: Any) -> None:
        """Overrides RLlib's: ``env`` may be a PettingZoo ``ParallelEnv``, see ``rllib_env``, numbers may be NumPy's.

        RLlib seeds Python's generator, which takes Python integers only.
        """
        if key == "env":
            value = rllib_env(value)
        super().__setattr__(key, value.item() if isinstance(value, np.generic) else value)

    def get_state(self) -> dict[str, Any]:
        """Overrides RLlib's, with which ``build_algo`` copies, to keep settings of -1.

        RLlib's leaves out every setting that equals -1, its mark of deprecated settings.
        """
        state = super().get_state()
        left_out = {key: value for key, value in vars(self).items() if key not in _NOT_IN_STATE | state.keys()}
        return {**state, **left_out}

    def to_dict(self) -> dict[str, Any]:
        """Returns RLlib's dict, and the class under ``config_class``."""
        return {**super().to_dict(), CONFIG_CLASS: type(self)}

    def update_from_dict(self, config_dict: Mapping[str, Any]) -> Self:
        """Overrides RLlib's to restore the class, too: RLlib updates ``Bippo``'s default config with Tune's dict."""
        settings = dict(config_dict.items())
        self.__class__ = settings.pop(CONFIG_CLASS, type(self))
        return super().update_from_dict(settings)

    def _set(self, **settings: Any) -> Self:
        """Sets the settings that are provided, as RLlib's setters do."""
        for name, value in settings.items():
            if value is not NotProvided:
                setattr(self, name, value)
        return self
