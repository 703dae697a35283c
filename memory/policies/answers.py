"""What an answer of a summarizer must be before it is believed. What is asked of it is not known here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from chatmemory.llm.protocol import Completion
from memory.policies.protocol import Refusal

# Controls, soft hyphen, zero-width space, bidi marks and embeddings, word joiner and its kin, BOM, tags,
# surrogates. The zero-width joiners stay: emoji and several scripts are written with them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
_URL = re.compile(r"(?:https?|ftp)://[^\s<>\"'`)\]]+", re.IGNORECASE)
_REFUSED = re.compile(
    r"(?:i'?m sorry|i am sorry|sorry|i apologi[sz]e|as an ai\b[^.]{0,60})[,.:;—– -]*(?:but )?"
    r"(?:i |we )?(?:can(?:no|')?t|am unable|'m unable|won't|am not able|'m not able)\b"
    r"|i (?:can(?:no|')?t|am unable to|'m unable to) (?:help|assist|comply|summari[sz]e|do that|fulfil)",
    re.IGNORECASE,
)
_ERROR = re.compile(
    r"(?:internal server )?error\s*:|<!doctype html|<html\b|traceback \(most recent call last\)"
    r"|(?:http(?:/\d(?:\.\d)?)? ?)?(?:error )?[45]\d\d (?:bad gateway|bad request|internal server"
    r"|service unavailable|gateway time|too many requests|unauthorized|forbidden|not found)"
    r"|\{\s*\"error\"\s*:",
    re.IGNORECASE,
)


def prompt_hash(instructions: str) -> str:
    """The version of `instructions`: 16 hex digits of their SHA-256."""
    return hashlib.sha256(instructions.encode()).hexdigest()[:16]


def plain_answer(completion: Completion | None, sources: Sequence[str]) -> str:
    """The answer as clean text: nothing unseen in it, and no link that none of `sources` holds. Raises as `said`."""
    return without_new_links(said(completion), sources)


def said(completion: Completion | None) -> str:
    """What the answer says, whatever its form: not yet cleaned of links, which JSON may write with escapes.

    Raises `Refusal` if there is none, or it is empty, truncated, refused, or the text of an error or a refusal.
    """
    if completion is None:
        raise Refusal("empty")
    text = without_unseen(completion.text).strip()
    if completion.refused or _REFUSED.match(text.replace("’", "'")):
        raise Refusal("refused")
    if completion.truncated:
        raise Refusal("truncated")
    if not text:
        raise Refusal("empty")
    if _ERROR.match(text):
        raise Refusal("error_text")
    return text


def without_unseen(text: str) -> str:
    """`text` without what no reader sees: controls, marks of direction, tags, lone surrogates."""
    return _UNSEEN.sub("", text)


def without_new_links(text: str, sources: Sequence[str]) -> str:
    """`text` with every link that none of `sources` holds taken out."""

    def known(found: re.Match[str]) -> str:
        link = found.group().rstrip(".,;:!?")
        return found.group() if any(link in source for source in sources) else "[link removed]"

    return _URL.sub(known, text)
