"""A turn as one line, the outline of its reply: what a prompt shows of a turn without room in full; titles of chats.

Both are made on every reply, so they are cheap. And a chat's first message as its title, and what any title may have.
"""

import re

import regex

from chatmemory.text.cleaning import BLANKS
from chatmemory.text.spans import scan
from chatmemory.text.tokens import clip_end, count_tokens

LINE_CHARS = 8000
"""Characters of each side that a line is made from, so that a giant message does not cost more."""
CHARS_PER_TOKEN = 8
"""More characters than a token of ordinary text has. Text above this ratio is not counted, because it cannot fit."""
CUT_OFF = "[cut off]"
"""Marks a reply that was cut off or cancelled, wherever its turn is shown to a model."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]+")
_HEADING = re.compile(r"#{1,3}\s+\S|\*\*.+\*\*|\d+\.\s+\S|\s*[-*]\s+\S")


def make_line(user: str, assistant: str, max_tokens: int = 40, cut_off: bool = False) -> str:
    """A turn as one line of at most `max_tokens` tokens; empty for a turn without text.

    The whole turn if it fits; otherwise its salient spans, numbers and ids first, then the beginning of the user's
    message. A `cut_off` reply is marked as such. Markers are not quoted here.
    """
    user, assistant = one_line(user[:LINE_CHARS]), one_line(assistant[:LINE_CHARS])
    if cut_off and assistant:
        assistant = f"{assistant} {CUT_OFF}"
    whole = " / ".join(f"{who}: {text}" for who, text in (("User", user), ("Assistant", assistant)) if text)
    if len(whole) <= max_tokens * CHARS_PER_TOKEN and count_tokens(whole) <= max_tokens:
        return whole
    mark = f" {CUT_OFF}" if cut_off else ""
    gist = _gist(user, assistant, max_tokens - count_tokens(mark))
    return clip_end(gist + mark, max_tokens)


def one_line(text: str) -> str:
    """Return `text` without line breaks and other control characters."""
    return " ".join(_CONTROL.sub(" ", text).split())


def _gist(user: str, assistant: str, max_tokens: int) -> str:
    """Salient spans of both sides in about two thirds of `max_tokens`, then the beginning of the user's message.

    Numbers and ids come first, then names, then spans of two characters, which say little; the user's first in each.
    """
    both = {span.casefold(): (span, hard) for span, hard in (*scan(user), *scan(assistant))}
    room = max_tokens * 2 // 3
    chosen: list[str] = []
    for span, _ in sorted(both.values(), key=lambda one: 2 if len(one[0]) <= 2 else not one[1]):
        cost = count_tokens(f", {span}")
        if cost <= room:
            chosen.append(span)
            room -= cost
        if room < 2:
            break
    start = ", ".join(chosen)
    room = max_tokens - count_tokens(f'{start} — "…"')
    text = user or assistant
    began = clip_end(text[: max(0, room) * CHARS_PER_TOKEN], room)
    more = "" if began == text else "…"
    return " — ".join(part for part in (start, began and f'"{began}{more}"') if part)


def outline(reply: str) -> str:
    """Up to five headings or bullets of a reply, 50 characters each, joined by ` | `, or else its first short lines.

    At most 400 characters (seed 002, generateOutline).
    """
    lines = [line for line in map(one_line, reply.splitlines()) if line]
    points = [line for line in lines if _HEADING.match(line)][:5]
    short = [line for line in lines if len(line) <= 80][:3]
    return " | ".join(line[:50] for line in points or short or lines[:1])[:400]


# Titles: from clients and files, and automatic ones, made from a chat's first message


TITLE_CHARS = 200
"""Maximum length of a title in storage; a longer one is cut."""
MAX_TITLE_CHARS = 60
TITLE_FROM_CHARS = 8000
"""Number of characters of a message that are considered: a title is made from its beginning."""
_UNSEEN = re.compile(f"(?![\U000e0020-\U000e007f])[{BLANKS}]")  # flags of regions are spelt with tags
_BREAKS = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
_CLUSTER = regex.compile(r"\X")
"""A letter as it is read: with its marks, and an emoji with its joined parts."""
_MARKS = re.compile(r"^(?:#{1,6} |[-*+>] ){1,4}(?=\S)")
_TAG = re.compile(r"<([a-z][a-z0-9_-]{0,40})>\n")
_BOLD = re.compile(r"(?<!\w)(\*{2,3}|`)(?=\S)(.{1,240}?)(?<=\S)\1(?!\w)")


def plain_title(title: str) -> str:
    """Return a title as one line, without control and direction characters, cut to the column's length."""
    return _cut(_UNSEEN.sub("", _BREAKS.sub(" ", title)).strip(), TITLE_CHARS)


def automatic_title(message: str) -> str:
    """Return the first line with visible text, without marks of Markdown, cut to fit a list; "" if there is none.

    Blocks in tags that a client put before the text, such as a list of attached files, are skipped.
    """
    message = message[:TITLE_FROM_CHARS].lstrip()
    while (tag := _TAG.match(message)) and (rest := message.partition(f"</{tag[1]}>")[2].lstrip()):
        message = rest
    return _cut(_BOLD.sub(r"\2", _MARKS.sub("", _first_line(message)[: 4 * MAX_TITLE_CHARS])))


def _first_line(message: str) -> str:
    lines = (" ".join(_UNSEEN.sub("", line).split()) for line in message[:TITLE_FROM_CHARS].splitlines())
    return next((line for line in lines if any(one.isprintable() and one != " " for one in line)), "")


def _cut(words: str, length: int = MAX_TITLE_CHARS) -> str:
    """Return at most `length` characters: whole letters, unless the first one alone is longer."""
    if len(words) <= length:
        return words
    ends = (one.end() for one in _CLUSTER.finditer(words[: length + 1]))
    return words[: max((end for end in ends if end < length), default=length - 1)].rstrip() + "…"


def title_repeats(title: str, message: str) -> bool:
    """Whether this title was made from this message, either here or by a client such as an older playground."""
    first_line = message.strip(" \t\r\n\ufeff").split("\n")[0][:MAX_TITLE_CHARS].strip()
    with_marks = _cut(_first_line(message))  # as titles were made before
    return bool(title) and title in (automatic_title(message), with_marks, first_line)
