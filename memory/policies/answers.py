"""What an answer of a summarizer must be before it is believed. What is asked of it is not known here."""

from __future__ import annotations

import hashlib
import re

from chatmemory.llm.protocol import Completion
from memory.policies.protocol import Refusal

_JOINERS = "\\u200c\\u200d\\ufe00-\\ufe0f\\U000e0100-\\U000e01ef"
# Controls, soft hyphen, letters that are blank, zero-width space, bidi marks and embeddings, word joiner and its kin,
# BOM, tags, surrogates. Joiners and variation selectors stay, because emoji and several scripts are written with them,
# but no more of them in a row than that takes: more could spell out a text.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
    f"|(?<=[{_JOINERS}][{_JOINERS}])[{_JOINERS}]+"
)
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


def said(completion: Completion | None) -> str:
    """What the answer says, whatever its form, without what no reader sees.

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
