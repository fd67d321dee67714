"""Messages name what was typed, a flag or a key of ``--set``, not the field of the federation behind it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from experiments.study.settings import ENV_PREFIX, FLAG_OF


def as_typed(message: str, keys: Iterable[str]) -> str:
    """``message`` with the user's words for fields, such as ``--num-actors`` for ``num_actors``.

    Args:
        message: One line.
        keys: Of ``--set`` and ``--search``, such as ``lr`` or ``env.num_clients``. Where ``lr`` and ``env.lr`` are both
            given, neither is renamed.
    """
    typed = set(keys)
    flags = {key.removeprefix(ENV_PREFIX): flag for key, flag in FLAG_OF.items() if key.startswith(ENV_PREFIX)}
    fields = {key.removeprefix(ENV_PREFIX): key for key in typed if key.startswith(ENV_PREFIX)}
    names = {field: name for field, name in {**flags, **fields}.items() if field not in typed}
    # What is also a word of prose stands for the field only where a value follows.
    alternatives = [re.escape(name) if "_" in name else rf"(?<!the ){name}(?=(?: is |=))" for name in names]
    return re.sub(rf"(?<![\w.-])({'|'.join(alternatives)})\b", lambda found: names[found[1]], message)
