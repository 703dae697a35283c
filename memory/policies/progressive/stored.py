"""The stored state of `progressive`: its narrative, its data, and the number of folds."""

from __future__ import annotations

from memory.policies.progressive.important_data import ImportantData, ordered
from memory.policies.progressive.important_data_json import read
from memory.policies.protocol import JSON, State


def state_of(summary: str, data: ImportantData, folds: int) -> State:
    kept: dict[str, JSON] = {"important_data": data.to_json(), "key_order": data.key_order()}
    return State(summary, kept | {"summary_version": folds})


def data_of(state: State) -> ImportantData:
    return ordered(read(state.data.get("important_data")), state.data.get("key_order"))


def folds_of(state: State) -> int:
    """Number of folds in `state`: its `summary_version`. If that is damaged, 1 with a summary and 0 without."""
    stored = state.data.get("summary_version")
    known = stored if isinstance(stored, int) and 0 < stored < 10**9 else 1
    return known if state.summary else 0
