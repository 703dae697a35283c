"""Statements in a message that hold until taken back, found by rule or by a summarizer; which replaces which. Pure.

Statements are found by rule, and so is what replaces what, both in English (`memory.pins.wordings`); those in any
language are listed by the summarizer beside its answer. Precision takes precedence over recall: a question, a
quotation, code, a log or a story about others states nothing. A pin is part of every later prompt, so a sentence
that is worded like an injected order to a model, or that contains a link, is not pinned: the user may have pasted it.
A user who means it can pin it by hand.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal, cast

from chatmemory.llm.protocol import Completion, Schema
from chatmemory.text.injections import KnownOrders
from chatmemory.text.links import links_in
from chatmemory.text.thoughts import without_thoughts
from chatmemory.text.tokens import clipped
from memory.pins import wordings
from memory.policies.answers import object_in
from memory.policies.protocol import Ask, Refusal
from memory.policies.state_parts import object_schema
from memory.recall.terms import fold, terms

END_CHARS = 2_000
"""Characters at each end of a message that are examined: in longer messages the middle is taken to be pasted text."""
MAX_SENTENCE_CHARS = 400
"""Longest sentence that is kept whole, in characters; of a longer one at most this much is kept, from its cue on."""
MAX_STATEMENTS = 8
"""Maximum number of statements of one message. A message with more is a document, and none of them counts."""


Kind = Literal["instruction", "preference", "identity", "remember"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of the user's message; `start` is its position in the message, in characters."""

    kind: Kind
    text: str
    start: int = 0
    about: str = ""
    """The words that say what it takes back, if it does."""
    stands_alone: bool = False
    """Whether one that takes back is an instruction itself if nothing like it was stated before."""


def statements(text: str) -> list[Statement]:
    """Return the statements in `text`, in order. The cost is bounded for any length of text."""
    found: list[Statement] = []
    for start, piece in _ends(text):
        for at, sentence, is_item in _sentences(_blanked(piece)):
            found += _stated(sentence, piece[at : at + len(sentence)], start + at, is_item)
    return found if len(found) <= MAX_STATEMENTS else []


def _ends(text: str) -> list[tuple[int, str]]:
    """The parts of a message to examine, each with its position; of a long message whole lines at both ends."""
    if len(text) <= 2 * END_CHARS:
        return [(0, text)]
    head, tail = text[:END_CHARS], len(text) - END_CHARS
    tail = text.find("\n", tail) + 1 or tail
    return [(0, head.rpartition("\n")[0] or head), (tail, text[tail:])]


_FENCED = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_QUOTED = re.compile(r"“[^“”\n]{12,}”|„[^„“”\n]{12,}[“”]|«[^«»\n]{12,}»|\"[^\"\n]{12,}\"")
_INLINE = re.compile(r"`[^`\n]+`")
_LINE = re.compile(r"[^\n]*")
_NOT_SAID = re.compile(
    r"\s*>|\t| {4,}"  # quoted, indented
    r"|\s*(?:#|//|/\*|\*/|<[/!a-z]|\$ |>>>|[{}\[\]|]|import |from \S+ import |def |class |const |let |var |return )"
    r"|\s*\[?(?:\d[\d./-]{5,9},?[T ])? ?\d\d?:\d\d\b|\s*(?:\S+ )?\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|"
    r"FATAL)\b"
    r"|.*(?:[;{]|\)\s*=>|\(\);?)\s*$"
)
"""Matches a line that begins or ends as quotations, code or logs do."""
_SPEAKER = re.compile(
    r"\s*[\[(*@]*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2})[\])*]*(?: ?[\[(]?\d\d?:\d\d[^:\n]{0,5})?:\s+(?=\S)"
)
"""A name with a colon, as in a transcript, perhaps with a time."""
_LETTER = re.compile(
    r"\s*(?:(?:from|subject|von|betreff|de|objet|asunto)\s?:|-{3,} ?(?:original|forwarded)\b)"
    r"|[^\n]{1,200}\b(?:wrote|schrieb|écrit|escribió)\s?:\s*$",
    re.IGNORECASE,
)
"""A line that begins another's letter, which lasts to the end of the message."""
_ITEM = re.compile(r"\s*(?:[-*•+–]|\(?\d{1,2}[.)]|[a-z]\))\s+")
_SENTENCE_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+(?=\s)|(?<=[。！？])")


def _blanked(text: str) -> str:
    """`text` with straight apostrophes, and with code and quotations replaced by characters that match nothing.

    The length stays the same.
    """
    text = text.replace("’", "'")
    for pattern in (_FENCED, _QUOTED, _INLINE):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    return text


def _sentences(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield each sentence that the user may have written: position, text, and whether it is a list item."""
    for line in _LINE.finditer(text):
        if _LETTER.match(line[0]):
            return
        if not line[0].strip() or _NOT_SAID.match(line[0]):
            continue
        item = _ITEM.match(line[0])
        at = item.end() if item else 0
        speaker = _SPEAKER.match(line[0], at)
        if speaker and not wordings.LABEL.fullmatch(speaker[1]):
            continue
        at = speaker.end() if speaker else at
        for end in [*(stop.end() for stop in _SENTENCE_END.finditer(line[0], at)), len(line[0])]:
            piece = line[0][at:end]
            if piece.strip():
                lead = len(piece) - len(piece.lstrip())
                yield line.start() + at + lead, piece.strip(), item is not None
            at = end


def _stated(blanked: str, sentence: str, start: int, is_item: bool) -> Iterator[Statement]:
    """Yield what one sentence states. `blanked` is searched, and the text is taken from `sentence`."""
    held = _held(blanked, is_item)
    found = None if _is_question(blanked) else wordings.TAKE_BACK.match(blanked)
    about = next(filter(None, found.groupdict().values()), "").strip() if found else ""
    if found and about:
        text = " ".join(sentence.split())[:MAX_SENTENCE_CHARS]
        kind: Kind = "identity" if found["trait"] or found["denied"] else "instruction"
        yield Statement(kind, text, start, about, bool(found["stop"] or found["trait"]) and not held)
    if held:
        text, offset = _excerpt(sentence, held[1])
        yield Statement(held[0], text, start + offset)


def _held(sentence: str, is_item: bool) -> tuple[Kind, int] | None:
    """The kind of the statement in the sentence, and the position of its cue."""
    if not _is_question(sentence):
        patterns: dict[Kind, re.Pattern[str]] = {"identity": wordings.IDENTITY, "remember": wordings.REMEMBER}
        for kind, pattern in patterns.items():
            if (found := pattern.search(sentence)) and not wordings.SAYS.search(sentence, 0, found.start(1)):
                return kind, found.start(1)
        if (at := _instruction(sentence, is_item)) is not None:
            return "instruction", at
    found = None if is_item or wordings.ASKS.match(sentence) else wordings.PREFER.search(sentence)
    if found is None or wordings.SAYS.search(sentence, 0, found.start(1)):
        return None
    # At the end of a question, unless it goes on after the preference.
    if sentence.endswith(("?", "？")) and not re.search(r"[,;:–—(]", sentence[found.start(1) :]):
        return None
    return "preference", found.start(1)


def _instruction(sentence: str, is_item: bool) -> int | None:
    """Position of an instruction that holds from now on; None if there is none."""
    if wordings.ONCE.search(sentence):
        return None
    lasts = wordings.LASTING.search(sentence) is not None
    always = wordings.ALWAYS.search(sentence)
    if always and (lasts or not is_item):
        return always.start(1)
    if lasts and (found := wordings.DIRECTS.search(sentence)):
        return 0 if wordings.LASTING.search(sentence[: found.start(1)]) else found.start(1)
    return None


def _is_question(sentence: str) -> bool:
    return sentence.rstrip("\"'”’)] ").endswith(("?", "？")) or wordings.ASKS.match(sentence) is not None


_CLAUSE_END = re.compile(r"[,;:–—](?=\s)")
_ENOUGH = 80
"""Characters of a long sentence, from its cue on, that are always kept."""


def _excerpt(sentence: str, at: int) -> tuple[str, int]:
    """Return the sentence and 0; of a long one the part up to the end of the cue's clause, and where that begins."""
    if len(" ".join(sentence.split())) <= MAX_SENTENCE_CHARS:
        return " ".join(sentence.split()), 0
    end = next((one.start() for one in _CLAUSE_END.finditer(sentence, at + _ENOUGH)), len(sentence))
    start = 0 if end <= MAX_SENTENCE_CHARS else at
    return clipped(" ".join(sentence[start:end].split()), MAX_SENTENCE_CHARS), start


_HARMLESS = frozenset({"recasts", "restricts"})
"""Kinds of orders that can also be a wish about replies ("from now on you …", "answer only with …")."""

_NOTHING_KNOWN = KnownOrders(())


def statements_to_pin(text: str) -> list[Statement]:
    """Return the statements of a user's message that may be pinned, in order."""
    return [one for one in statements(text) if may_be_pinned(one.text)]


def may_be_pinned(text: str) -> bool:
    """Whether `text` could not steer a model against its reader."""
    return not links_in(text) and not _NOTHING_KNOWN.new_in(text) - _HARMLESS


def may_be_lifted(one: Statement) -> bool:
    """Whether a statement may hold in other chats of its user, too: it means the same in any chat.

    One that could be another person's order to a model may not, even if it may be pinned in its own chat.
    """
    is_plain = wordings.PLAIN.fullmatch(one.text) and not _NOTHING_KNOWN.new_in(one.text)
    return bool(is_plain) and one.kind != "remember" and not wordings.HERE.search(one.text)


ALIKE = 0.5
"""Two instructions are about the same thing if they have this share of all their words in common."""
NAMED = 0.6
"""Share of the words naming the statement taken back that a statement must contain to match."""


def replaces(later: Statement, earlier: Statement) -> bool:
    """Whether `earlier` no longer holds once `later` was said, because it says nearly the same, or the opposite.

    Of two others that contradict each other, both stay: a prompt says that a newer one overrides an older one.
    """
    new, old = _words(later.text), _words(earlier.text)
    if new == old and later.kind == earlier.kind:
        return bool(new) or fold(later.text) == fold(earlier.text)
    if later.kind == earlier.kind == "identity":
        called, before = wordings.CALLED.search(later.text), wordings.CALLED.search(earlier.text)
        return bool(called and before and called[1].casefold() == before[1].casefold())
    if {later.kind, earlier.kind} & {"identity", "preference"}:
        return False
    return len(new & old) >= max(2, ALIKE * len(new | old))


def takes_back(later: Statement, text: str) -> bool:
    """Whether `later` takes back the statement `text`: it contains most of the words that say what is taken back.

    If that is a trait, the statement has nothing else: a user who no longer avoids nuts may still avoid fish.
    """
    words, said = _words(later.about), _words(text)
    return bool(words) and len(words & said) / len(words) >= NAMED and (later.kind != "identity" or said <= words)


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text)) - _SAYS_NOTHING


_SAYS_NOTHING = frozenset(
    terms(
        "always never ever please prefer preference preferred really usually generally now instead anymore longer more "
        "mine want like need use using used answer answers reply respond response responses stop stopped thing things "
        "make sure"
    )
)
"""Words that belong to the form of a statement, not to its subject; as `terms` returns them."""


# What the summarizer lists beside its answer
#
# It is the same for every policy: an answer that is an object has one more field, any other one more part below a line
# of its own. What is listed is a quote of a message; `memory.pins.pins.pin_quoted` checks that, because it has the
# messages.

FIELD = "standing"
HEADING = "=== STANDING ==="

_LIST = """\
{where} what the user says in the new turns that every later reply must respect: how to answer from now on, and \
lasting preferences. Copy one sentence of the user's for each, word for word and in its language, after \
"instruction: " or "preference: ". Leave out what concerns a single task, what is quoted or pasted, and what the user \
has taken back. {none}
"""
_IN_OBJECT = _LIST.format(
    where=f'The object has one more field, "{FIELD}": a list of texts with', none="The list may be empty."
)
_BELOW = _LIST.format(
    where=f"After all that, below a line {HEADING}, list one to a line",
    none=f"Without any, leave out the line {HEADING}, too.",
)
_HEADING = re.compile(r"^[^\w\n=]*=++ *+STANDING *+=++[^\w\n]*+$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"\S+")
_LISTED = re.compile(r"[\s*•-]*(instruction|preference)\s*:(.+)", re.IGNORECASE)


def with_statements(ask: Ask) -> Ask:
    """Return `ask`, which also requests the list."""
    if ask.schema is None:
        return replace(ask, answer_format=f"{ask.answer_format}\n{_BELOW}")
    properties = {**ask.schema.schema["properties"], FIELD: {"type": "array", "items": {"type": "string"}}}
    schema = Schema(ask.schema.name, object_schema(properties))
    return replace(ask, answer_format=f"{ask.answer_format}\n{_IN_OBJECT}", schema=schema)


def split_statements(ask: Ask, answer: Completion) -> tuple[Completion, tuple[Statement, ...]]:
    """Return the answer to `ask` without the list, and what the list says; a field of an object is left where it is."""
    if ask.schema is None:
        text, *listed = _HEADING.split("".join(without_thoughts(answer.text)), maxsplit=1)
        return replace(answer, text=text), _read("".join(listed).splitlines())
    try:
        found = object_in(answer.text).get(FIELD)
    except Refusal:
        found = None
    return answer, _read(found if isinstance(found, list) else ())


def _read(listed: Sequence[object]) -> tuple[Statement, ...]:
    """The statements of a list that may be pinned, each once."""
    found: dict[Statement, None] = {}
    for line in listed[:MAX_STATEMENTS]:
        item = _LISTED.fullmatch(line) if isinstance(line, str) else None
        quote = " ".join(item[2].split()).strip("\"'“”„«» ") if item else ""
        if item and 1 < len(quote) <= MAX_SENTENCE_CHARS and may_be_pinned(quote):
            found[Statement(cast("Kind", item[1].lower()), quote)] = None
    return tuple(found)


def place_of(quote: str, text: str) -> int:
    """The position of `quote` in `text`, whatever white space is between its words; -1 if it is not there."""
    # Not by a pattern: hostile text of a megabyte would take a second, in the transaction that publishes a fold.
    flat = " ".join(text.split())
    at = flat.find(" ".join(quote.split()))
    if at < 0:
        return -1
    word = next(islice(_WORD.finditer(text), flat.count(" ", 0, at), None))
    return word.start() + at - (flat.rfind(" ", 0, at) + 1)


def said_in(quote: str, text: str) -> tuple[int, str]:
    """Return the place and the whole of the sentence of `text` with the quote, as a part could say the opposite.

    No text if the user has not said it but pasted it, or if it may not be pinned.
    """
    place = place_of(quote, text)
    for start, said, _ in _sentences(_blanked(text)) if place >= 0 else ():
        at = place - start
        if 0 <= at < len(said) and said[at] != "_" and not wordings.SAYS.search(said, 0, at):
            whole = clipped(" ".join(text[start : start + len(said)].split()), MAX_SENTENCE_CHARS)
            return start, whole if may_be_pinned(whole) else ""
    return place, ""
