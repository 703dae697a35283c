"""The narrative of `hierarchical`: pieces, each about one span of messages, stored with the facts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chatmemory.text.tokens import clip_end, count_tokens
from memory.policies.hierarchical.facts import Fact, facts_json
from memory.policies.protocol import JSON, State, text_in


@dataclass(frozen=True, slots=True)
class NarrativePiece:
    """What the narrative says about one span of messages: a paragraph on one line."""

    from_seq: int
    through_seq: int
    text: str


def stored_pieces(state: State) -> list[NarrativePiece]:
    """Return the pieces of any stored state. If it has none that can be read, the summary is the only piece."""
    rows = state.data.get("pieces")
    pieces = [
        NarrativePiece(_seq(row.get("from_seq")), _seq(row.get("through_seq")), text)
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and (text := " ".join(text_in(row.get("text")).split()))
    ]
    whole_text = " ".join(state.summary.split())
    return pieces or ([NarrativePiece(0, 0, whole_text)] if whole_text else [])


def newest(pieces: Sequence[NarrativePiece], max_tokens: int) -> list[NarrativePiece]:
    """Return the newest pieces that fit together; the newest is cut if it does not fit by itself."""
    kept = list(pieces)
    while len(kept) > 1 and count_tokens(joined(kept)) > max_tokens:
        kept.pop(0)
    return [NarrativePiece(one.from_seq, one.through_seq, clip_end(one.text, max_tokens)) for one in kept]


def joined(pieces: Sequence[NarrativePiece]) -> str:
    return "\n".join(piece.text for piece in pieces)


def state_of(facts: Sequence[Fact], pieces: Sequence[NarrativePiece]) -> State:
    stored: list[JSON] = [
        {"from_seq": piece.from_seq, "through_seq": piece.through_seq, "text": piece.text} for piece in pieces
    ]
    return State(joined(pieces), {"facts": facts_json(facts), "pieces": stored})


def _seq(value: JSON) -> int:
    return value if isinstance(value, int) else 0
