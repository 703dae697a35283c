"""Counts tokens: one function for all counts (o200k_base, seed 000 section 8.1). Cuts text to tokens or characters.

The ranks are part of the package, so nothing is downloaded, and their hash is checked when they are loaded. Counting
never raises, for any text: special tokens count as text, and text that the tokenizer cannot handle is cut into
pieces. Clipping is here too, because a cut must be right by this count. This module does not know what a text is for.
"""

import functools
import hashlib
import os
import re
from pathlib import Path

import tiktoken
from tiktoken_ext.openai_public import o200k_base

ENCODING = "o200k_base"
"""The encoding that counts tokens."""
MESSAGE_OVERHEAD = 4
"""Tokens of a message in addition to its text (role and separators)."""

RANKS_FILE = Path(__file__).parent / "data" / "fb374d419588a4632f3f557e76b4b70aebbca790"
"""The ranks of o200k_base, under the name that tiktoken looks for in its cache."""
RANKS_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
"""As published with tiktoken (`tiktoken_ext/openai_public.py`)."""
PIECE_CHARS = 250_000
"""Longer texts are counted in pieces, which adds up to two tokens each: a million spaces make tiktoken panic."""
BORDER_CHARS = 40
"""Maximum distance in characters that a cut in the middle moves to reach a word boundary."""

_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]?(?=\s)|[。！？]|\n")
_WHITESPACE = re.compile(r"\s")

MAX_COUNTED = 10_000
"""Maximum number of texts whose count is kept: 1.5 MB."""
_counted: dict[bytes, int] = {}


def count_tokens(text: str) -> int:
    """Count the tokens of `text` in o200k_base. Never raises; lone surrogates count as U+FFFD."""
    return len(_encode(text))


def count_repeated(text: str) -> int:
    """Count the tokens of a text that recurs every turn, such as memory. The count is cached by the text's digest."""
    key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    count = _counted.get(key)
    if count is None:
        if len(_counted) >= MAX_COUNTED:
            _counted.clear()
        count = _counted[key] = count_tokens(text)
    return count


@functools.cache
def heading_cost(heading: str) -> int:
    """Count the tokens of a message besides the text that follows its `heading`."""
    return count_tokens(heading) + 1 + MESSAGE_OVERHEAD


def clip_middle(text: str, max_tokens: int, note: str = "") -> str:
    """Head and tail of `text` with a note between, at most `max_tokens` by `count_tokens`.

    A text that fits is returned unchanged; if not even the note fits, the result is empty. The number in our own note
    is that of the tokens left out before the cuts moved to word boundaries.
    """
    tokens = _encode(text)
    if len(tokens) <= max_tokens:
        return text
    room = max_tokens - count_tokens(note or _left_out(len(tokens)))
    while room >= 0:
        tail = room // 2
        head = _decode(tokens[: room - tail])
        border = max(head.rfind(" ", -BORDER_CHARS), head.rfind("\n", -BORDER_CHARS))
        head = head[:border].rstrip() if border > 0 else head
        end = _decode(tokens[len(tokens) - tail :])
        space = _WHITESPACE.search(end, 0, BORDER_CHARS)
        end = end[space.end() :].lstrip() if space else end
        clipped = " ".join(filter(None, (head, note or _left_out(len(tokens) - room), end)))
        excess = count_tokens(clipped) - max_tokens
        if excess <= 0:
            return clipped
        room -= excess
    return ""


def clip_end(text: str, max_tokens: int) -> str:
    """The beginning of `text`, at most `max_tokens` by `count_tokens`.

    It is cut after a sentence if one ends in the last third, else after a word, else anywhere. A text that fits is
    returned unchanged.
    """
    tokens = _encode(text)
    if len(tokens) <= max_tokens:
        return text
    room = max_tokens
    while room > 0:
        clipped = _to_a_stop(_decode(tokens[: room + 1]), _decode(tokens[:room]))
        excess = count_tokens(clipped) - max_tokens
        if excess <= 0:
            return clipped
        room -= excess
    return ""


@functools.cache
def load() -> tiktoken.Encoding:
    """Load the tokenizer, once (about 0.4 s, 45 MB). Raise `RuntimeError` if its file is damaged."""
    try:
        found = hashlib.sha256(RANKS_FILE.read_bytes()).hexdigest()
    except OSError as error:
        raise RuntimeError(f"cannot read the token ranks in {RANKS_FILE}: {error.strerror}") from error
    if found != RANKS_SHA256:  # tiktoken would delete the file, and download another without a time limit
        raise RuntimeError(f"the token ranks in {RANKS_FILE} are damaged: SHA-256 is {found}, not {RANKS_SHA256}")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(RANKS_FILE.parent)
    published = o200k_base()
    encoding = tiktoken.Encoding(**published)
    published["mergeable_ranks"].clear()  # the encoding has its own tables: these 27 MB are never read again
    return encoding


def _encode(text: str) -> list[int]:
    if len(text) <= PIECE_CHARS:
        return load().encode_ordinary(text)
    starts = range(0, len(text), PIECE_CHARS)
    return [token for at in starts for token in _encode(text[at : at + PIECE_CHARS])]


def _decode(tokens: list[int]) -> str:
    """The text of `tokens`, without a character that is cut in two at either end."""
    return load().decode_bytes(tokens).decode("utf-8", "ignore")


def _left_out(tokens: int) -> str:
    return f"[… {tokens} tokens left out …]"


def _to_a_stop(longer: str, text: str) -> str:
    """`text` cut after its last whole sentence or word; `longer` is the same text with one more token."""
    third = len(text) * 2 // 3
    ends = [match.end() for match in _SENTENCE_END.finditer(longer, third) if match.end() <= len(text)]
    if ends:
        return text[: ends[-1]].rstrip()
    if longer[len(text) : len(text) + 1].isspace():
        return text.rstrip()
    word = max(text.rfind(" ", third), text.rfind("\n", third))
    return text[:word].rstrip() if word > 0 else text


def clipped(text: str, limit: int) -> str:
    """Strip `text` and cut it to `limit` characters, at a word boundary if there is one."""
    text = text.strip()
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    return (cut.rpartition(" ")[0].rstrip() or cut) + "…"
