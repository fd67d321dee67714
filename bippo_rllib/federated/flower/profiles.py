"""Update profiles of what nodes send: the server sketches the replies to a training, and forgets the updates."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message

from bippo_rllib.federated.reports import ClientReport
from bippo_rllib.federated.update_profiles import update_profile

logger = logging.getLogger(__name__)

#: Ends of the names of arrays that are not trained: PyTorch's statistics of batch normalisation.
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def profiles_of(
    replies: Mapping[Any, Message], before: ArrayRecord, reports: Mapping[Any, ClientReport], size: int
) -> dict[Any, np.ndarray]:
    """Returns the profile of each client that trained; a reply that has none, such as trees, is left out.

    Args:
        replies: The replies to the training, by client, as they were sent.
        before: The model before the round.
        reports: The clients' reports, with their training samples.
        size: Numbers in a profile.

    Returns:
        ``float32[size]`` by client.
    """
    profiles = {}
    try:
        old = _trained(before)
    except Exception as error:  # whatever NumPy raises at bytes that are no array
        logger.warning("no update profiles: %s: %s", type(error).__name__, error)
        return {}
    for client, reply in replies.items():
        try:
            new = _trained(next(iter(reply.content.array_records.values())))
            if not old or old.keys() != new.keys():
                raise ValueError("its arrays do not match the model's, or none of them has real numbers")
            pairs = [(old[name], new[name]) for name in old]
            after, num_samples = [array for _, array in pairs], reports[client].num_samples
            profiles[client] = update_profile([array for array, _ in pairs], after, num_samples, size=size)
        except Exception as error:  # of what a node sends, bytes that are no array among it
            logger.warning("no update profile of %r: %s: %s", client, type(error).__name__, error)
    return profiles


def _trained(arrays: ArrayRecord) -> dict[str, np.ndarray]:
    found = {name: array.numpy() for name, array in arrays.items() if not name.endswith(BUFFERS)}
    return {name: array for name, array in found.items() if array.dtype.kind == "f"}
