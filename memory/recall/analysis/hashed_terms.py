"""Hash the terms of a message for storage, so that the index contains no words. Pure.

The same term of two owners has two hashes. A message's stored terms are one text with one line per passage, and each
term once per passage. The index itself adds the keys that separate the terms of one chat from those of its owner's
other chats (`memory.recall.schema`). A hash hides nothing from anyone who has the messages; it keeps their words out
of files that a deletion reaches late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from memory.recall.analysis.terms import passages, terms

HASH_BYTES = 4
"""Bytes of a hash. Of 100,000 words of one owner, about one pair collides; a match is one of many words."""
HASH_CHARS = 2 * HASH_BYTES
MOST_TERMS = 30_000
"""Maximum number of terms of one message: about 200,000 characters. A database limits the size of an index entry."""


def stored_terms(text: str, owner_id: int) -> str:
    """Return the text that the index stores for a message; "" if it has no terms."""
    key = _key(owner_id)
    lines: list[str] = []
    left = MOST_TERMS
    for start, end in passages(text):
        found = list(dict.fromkeys(_hash(term, key) for term in terms(text[start:end])))
        if len(found) > left:
            break
        left -= len(found)
        lines.append(" ".join(found))
    return "\n".join(lines) if any(lines) else ""


def hashed(words: Iterable[str], owner_id: int) -> list[str]:
    """Hash terms as they are stored for that owner."""
    key = _key(owner_id)
    return [_hash(word, key) for word in words]


def _key(owner_id: int) -> bytes:
    return owner_id.to_bytes(8, "big", signed=True)


@lru_cache(maxsize=50_000)
def _hash(term: str, key: bytes) -> str:
    digest = hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=HASH_BYTES, key=key)
    return digest.hexdigest()
