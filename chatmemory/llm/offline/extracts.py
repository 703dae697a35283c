"""The built-in model's answers to requests for an object: extracts of the request in the layout of the schema.

A policy names the extract for its schema (`Schema.extract`).
"""

from __future__ import annotations

from collections.abc import Callable

from chatmemory.llm.offline import card, facts, important_data
from chatmemory.llm.offline.parse_request import ParsedRequest, read_messages, read_turns, request_from_turns


def extract_important_data(asked: str, tokens: int) -> str:
    """Extract important data in seven kinds."""
    return important_data.important_data(_parsed(read_turns, asked), tokens or important_data.DATA_TOKENS)


def extract_data_and_summary(asked: str, tokens: int) -> str:
    """Extract important data, and a summary."""
    return important_data.data_and_summary(
        _parsed(read_turns, asked), tokens or important_data.DATA_AND_SUMMARY_TOKENS
    )


def extract_facts_and_narrative(asked: str, tokens: int) -> str:
    """Extract facts by key, keys of facts that are no longer valid, and a narrative."""
    return facts.facts_and_narrative(_parsed(read_messages, asked), tokens or facts.FACTS_TOKENS)


def extract_card(asked: str, tokens: int) -> str:
    """Extract a memory card."""
    return card.memory_card(_parsed(read_turns, asked), tokens or card.CARD_TOKENS)


def _parsed(read: Callable[[str], ParsedRequest], text: str) -> ParsedRequest:
    """Parse the request; a text in any other layout is taken for one message of a user."""
    try:
        return read(text)
    except ValueError:
        return request_from_turns("", [(text, "")])
