"""Terms as they are stored: hashed, so that an index holds no words, and the same term of two owners is two.

A message's stored terms are one text, a line a passage, each term once in its passage. The keys by which the terms of
one chat are told from those of its owner's others are added by the index itself (`memory.recall_index`). A hash hides
nothing from who has the messages; it keeps what was said out of files that a deletion reaches late.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from memory.analysis import passages, terms

HASH_BYTES = 4
"""Of 100,000 different words of one owner, two share a hash with a chance of two; a find is one of many words."""
HASH_CHARS = 2 * HASH_BYTES
MOST_TERMS = 30_000
"""Of one message: about 200,000 characters. A database can hold only so many in one entry of its index."""


def stored_terms(text: str, owner_id: int) -> str:
    """What the index is to hold of a message; "" for one in which there is nothing to find."""
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
    """`words`, which are terms, as they are stored for that owner."""
    key = _key(owner_id)
    return [_hash(word, key) for word in words]


def _key(owner_id: int) -> bytes:
    return owner_id.to_bytes(8, "big", signed=True)


@lru_cache(maxsize=50_000)
def _hash(term: str, key: bytes) -> str:
    digest = hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=HASH_BYTES, key=key)
    return digest.hexdigest()
