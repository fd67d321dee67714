"""Settings of the reward, and of what clients report beside accuracy and cost."""

from __future__ import annotations

from dataclasses import dataclass

from envs.rules.reward import ACCURACY_TARGET, OWN_EFFECT, REWARDS, SHAPLEY
from envs.settings.energy import EnergySettings
from envs.settings.setting import COUNT, FLAG, NATURAL, POSITIVE, SHARE, choice, only_with, or_none, setting


@dataclass(frozen=True)
class RewardSettings(EnergySettings):
    """The reward, and what infos hold beside accuracy and cost."""

    reward: str = setting(
        "accuracy_change",
        choice(REWARDS, custom=True),
        """The paper's, ``accuracy_change``, or ``accuracy_target``, both the team's; or each participant's own effect,
        ``leave_one_out`` or ``shapley`` (see ``envs.rules``). ``MODULE:NAME`` is a function of a ``RoundOutcome`` that
        returns the team's reward.""",
    )
    reward_base: float = setting(64.0, POSITIVE, "Lambda of the reward.", unread=only_with("reward", *REWARDS))
    reward_target: float = setting(
        0.8, SHARE, "Target of the mean accuracy.", unread=only_with("reward", ACCURACY_TARGET)
    )
    credit_clients: int | None = setting(
        None,
        or_none(NATURAL),
        "Clients that evaluate the models behind rewards for own effects, drawn anew in every round; None for all.",
        unread=only_with("reward", *OWN_EFFECT),
    )
    shapley_pairs: int = setting(
        1,
        NATURAL,
        "Pairs of orders that are drawn where more than three clients train.",
        unread=only_with("reward", SHAPLEY),
    )
    with_loss: bool = setting(
        False, FLAG, "Also compute each client's mean cross-entropy on its training samples, info ``loss``."
    )
    with_label_counts: bool = setting(
        False,
        FLAG,
        """Also report how many training samples of each class every client has, as it labels them, info
        ``label_counts``. No real client gives that away; for bounds and for methods that require it.""",
    )
    update_profile_size: int = setting(
        0, COUNT, "Numbers in the sketch of a client's update, info ``update_profile``; 0 sketches none."
    )
    with_output_bias: bool = setting(
        False,
        FLAG,
        """Also report how a client's training changed the output layer's bias, info ``output_bias_update``; the bias
        must be the model's last parameter.""",
    )
    with_update_norm: bool = setting(
        False, FLAG, "Also report the Euclidean length of a client's update, info ``update_norm``."
    )

    @property
    def update_reports(self) -> tuple[str, ...]:
        """Returns the info keys of what is reported about the updates of clients that trained."""
        requested = {
            "update_profile": self.update_profile_size > 0,
            "output_bias_update": self.with_output_bias,
            "update_norm": self.with_update_norm,
        }
        return tuple(key for key, is_requested in requested.items() if is_requested)
