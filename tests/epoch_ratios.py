"""The PPO ratios of an update, seen where its loss is computed."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch


def record_ratios(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> list[torch.Tensor]:
    """Ratios of the samples, an entry for each epoch that ``module`` runs from now on."""
    ratios: list[torch.Tensor] = []
    original = module.ppo_loss

    def recording(log_probs: torch.Tensor, old_log_probs: torch.Tensor, *args, **kwargs) -> torch.Tensor:
        ratios.append(torch.exp(log_probs - old_log_probs).detach())
        return original(log_probs, old_log_probs, *args, **kwargs)

    monkeypatch.setattr(module, "ppo_loss", recording)
    return ratios
