"""The PPO ratios of an update, seen where its loss is computed."""

from __future__ import annotations

import pytest
import torch

from bippo_rllib.learning import ppo_update


def record_ratios(monkeypatch: pytest.MonkeyPatch) -> list[torch.Tensor]:
    """Ratios of the samples, an entry for each epoch run from now on."""
    ratios: list[torch.Tensor] = []
    original = ppo_update.ppo_loss

    def recording(log_probs: torch.Tensor, old_log_probs: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        ratios.append(torch.exp(log_probs - old_log_probs).detach())
        return original(log_probs, old_log_probs, *args, **kwargs)

    monkeypatch.setattr(ppo_update, "ppo_loss", recording)
    return ratios
