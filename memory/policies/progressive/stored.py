"""The stored state of `progressive`: its data, its number of folds, and the length of its narrative."""

from __future__ import annotations

from memory.policies.progressive.important_data import ImportantData, ordered
from memory.policies.progressive.important_data_json import read
from memory.policies.protocol import JSON, State

LAST_TARGET = 5
"""The fold from which the target no longer grows."""


def state_of(summary: str, data: ImportantData, folds: int) -> State:
    kept: dict[str, JSON] = {"important_data": data.to_json(), "key_order": data.key_order()}
    return State(summary, kept | {"summary_version": folds})


def data_of(state: State) -> ImportantData:
    return ordered(read(state.data.get("important_data")), state.data.get("key_order"))


def target_words(fold: int) -> tuple[int, int]:
    """Target length of the summary of the `fold`-th fold (from 1), in words (seed 001, phase 5)."""
    return (500, 750) if fold >= LAST_TARGET else (100 * fold, 100 * fold + 50)


def summary_cap(fold: int) -> int:
    """Tokens to which the summary of that fold is cut: an eighth above its target."""
    return tokens_of(target_words(fold)[1]) * 9 // 8


def folds_of(state: State) -> int:
    """Number of folds in `state`: its `summary_version`. If that is damaged, 1 with a summary and 0 without."""
    stored = state.data.get("summary_version")
    known = stored if isinstance(stored, int) and 0 < stored < 10**9 else 1
    return known if state.summary else 0


def tokens_of(words: int) -> int:
    """Approximate tokens of that many English words."""
    return words * 4 // 3
