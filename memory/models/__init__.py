"""Rows of memory. Everybody imports them from here; Django finds them here, too."""

from memory.models.briefs import (
    Card,
    Comparing,
    Comparison,
    ContextRecord,
    ContextText,
    ConversationBrief,
    FoldDay,
    Kind,
    Requested,
    SummaryRevision,
    UsageDay,
)
from memory.models.pins import BY_HAND, MAX_CHARS, MOST_PINS, PEOPLE, Pin, PinKind, PinnedBy
from memory.models.workers import ChatEmbeddings, MessageEmbedding, Watch, WorkerProcess

__all__ = [
    "BY_HAND",
    "MAX_CHARS",
    "MOST_PINS",
    "PEOPLE",
    "Card",
    "ChatEmbeddings",
    "Comparing",
    "Comparison",
    "ContextRecord",
    "ContextText",
    "ConversationBrief",
    "FoldDay",
    "Kind",
    "MessageEmbedding",
    "Pin",
    "PinKind",
    "PinnedBy",
    "Requested",
    "SummaryRevision",
    "UsageDay",
    "Watch",
    "WorkerProcess",
]
