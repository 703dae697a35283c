"""The models of memory. Other modules import them from here, and so does Django."""

from memory.models.briefs import (
    ConversationBrief,
    FoldDay,
    Requested,
    RevisionKind,
    SummaryRevision,
    UsageDay,
)
from memory.models.contexts import CardOutcome, ContextRecord, ContextText
from memory.models.pins import BY_HAND, MAX_CHARS, MOST_PINS, PEOPLE, Pin, PinKind, PinnedBy
from memory.models.workers import ChatEmbeddings, MessageEmbedding, Worker

__all__ = [
    "BY_HAND",
    "MAX_CHARS",
    "MOST_PINS",
    "PEOPLE",
    "CardOutcome",
    "ChatEmbeddings",
    "ContextRecord",
    "ContextText",
    "ConversationBrief",
    "FoldDay",
    "MessageEmbedding",
    "Pin",
    "PinKind",
    "PinnedBy",
    "Requested",
    "RevisionKind",
    "SummaryRevision",
    "UsageDay",
    "Worker",
]
