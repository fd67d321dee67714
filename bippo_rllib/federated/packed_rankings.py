"""Rankings as entries and arrays of a selector's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bippo_rllib.baselines.cyclic import Cyclic
from bippo_rllib.baselines.oort import Oort
from bippo_rllib.federated.ranking import Ranking, ReportRanking, RuleRanking


def pack_ranking(ranking: Ranking | None) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Returns the entries ``ranking``, ``cyclic`` and ``oort`` of a record, of which at most one is not None."""
    entries: dict[str, Any] = {"ranking": None, "cyclic": None, "oort": None}
    if ranking is None:
        return entries, {}
    if isinstance(ranking, ReportRanking):
        return entries | {"ranking": vars(ranking)}, {}
    state = ranking.rule.get_state()
    if isinstance(ranking.rule, Cyclic):
        return entries | {"cyclic": state}, {}
    known, history = state.pop("known"), state.pop("history")
    arrays = {
        "oort.utilities": np.array([utility for utility, _ in known.values()], dtype=np.float64),
        "oort.rounds": np.array([number for _, number in known.values()], dtype=np.int64),
        "oort.history": np.array(history, dtype=np.float64),
    }
    return entries | {"oort": state | {"clients": list(known), "num_history": len(history)}}, arrays


def unpack_ranking(record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Ranking | None:
    """Returns the ranking in a record and its arrays, which were checked."""
    if record["ranking"] is not None:
        return ReportRanking(**record["ranking"])
    if record["cyclic"] is not None:
        cyclic = Cyclic()
        cyclic.set_state(record["cyclic"])
        return RuleRanking(cyclic)
    if record["oort"] is None:
        return None
    oort, state = Oort(), dict(record["oort"])
    records = zip(arrays["oort.utilities"].tolist(), arrays["oort.rounds"].tolist(), strict=True)
    state |= {"known": dict(zip(state["clients"], records, strict=True)), "history": arrays["oort.history"].tolist()}
    oort.set_state(state)
    return RuleRanking(oort)
