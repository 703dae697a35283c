"""The length of the narrative, which grows with the number of folds (seed 001, phase 5)."""

from __future__ import annotations

LAST_TARGET = 5
"""The fold from which the target no longer grows."""


def target_words(fold: int) -> tuple[int, int]:
    """Target length of the summary of the `fold`-th fold (from 1), in words (seed 001, phase 5)."""
    return (500, 750) if fold >= LAST_TARGET else (100 * fold, 100 * fold + 50)


def summary_cap(fold: int) -> int:
    """Tokens to which the summary of that fold is cut: an eighth above its target."""
    return tokens_of(target_words(fold)[1]) * 9 // 8


def tokens_of(words: int) -> int:
    """Approximate tokens of that many English words."""
    return words * 4 // 3
