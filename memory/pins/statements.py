"""Find what a user's message states that holds until it is taken back. Pure, by rule, in several languages.

Precision takes precedence over recall: a question, a quotation, code, a log or a story about somebody else states
nothing. The cues of each language are in `memory.pins.wordings`; `memory.pins.contradictions` decides which statement
replaces which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from memory.pins.wordings import LANGUAGES
from memory.pins.wordings.cues import Words
from memory.pins.wordings.patterns import Language

END_CHARS = 2_000
"""Characters at each end of a message that are examined: in longer messages the middle is taken to be pasted text."""
MAX_SENTENCE_CHARS = 400
"""Longest sentence that is kept whole, in characters; of a longer one at most this much is kept, from its cue on."""
SHORT_MESSAGE_CHARS = 320
"""Longest message, in characters, that is kept whole if it states only a preference: the rest says what it is for."""
MAX_STATEMENTS = 8
"""Maximum number of statements of one message. A message with more is a document, and none of them counts."""


class StatementKind(StrEnum):
    """The kind of a statement."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    IDENTITY = "identity"
    REMEMBER = "remember"
    TAKE_BACK = "take_back"
    """Ends an earlier statement. Stored as an instruction if `stands_alone` and it ends none; otherwise not stored."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of the user's message; `start` is its position in the message, in characters."""

    kind: StatementKind
    text: str
    start: int
    about: str = ""
    """For TAKE_BACK: the words that say what is taken back."""
    stands_alone: bool = False
    """For TAKE_BACK: whether it is an instruction itself if nothing like it was stated before."""


def statements(text: str) -> list[Statement]:
    """Return the statements in `text`, in order. The cost is bounded for any length of text."""
    found: list[Statement] = []
    for start, piece in _ends(text):
        words = Words.of(piece)
        if any(language.has_cue(piece, words) for language in LANGUAGES):
            for at, sentence, is_item in _sentences(_blanked(piece)):
                found += _stated(sentence, piece[at : at + len(sentence)], start + at, is_item)
    if (
        len(found) == 1
        and found[0].kind is StatementKind.PREFERENCE
        and len(text) <= SHORT_MESSAGE_CHARS
        and "\n" not in text.strip()
    ):
        return [replace(found[0], text=" ".join(text.split()), start=0)]
    return found if len(found) <= MAX_STATEMENTS else []


def _ends(text: str) -> list[tuple[int, str]]:
    """The parts of a message to examine, each with its position; of a long message whole lines at both ends."""
    if len(text) <= 2 * END_CHARS:
        return [(0, text)]
    head, tail = text[:END_CHARS], len(text) - END_CHARS
    after = text.find("\n", tail)
    return [
        (0, head.rpartition("\n")[0] or head),
        (after + 1 if after >= 0 else tail, text[after + 1 :] if after >= 0 else text[tail:]),
    ]


_FENCED = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_QUOTED = re.compile(
    r"“[^”\n]{12,}”|„[^“”\n]{12,}[“”]|«[^»\n]{12,}»|»[^«\n]{12,}«|「[^」\n]{4,}」|『[^』\n]{4,}』|\"[^\"\n]{12,}\""
)
_INLINE = re.compile(r"`[^`\n]+`")
_LINE = re.compile(r"[^\n]*")
_NOT_SAID = re.compile(
    r"\s*>|\t| {4,}"  # quoted, indented
    r"|\s*(?:#|//|/\*|\*/|<[/!a-z]|\$ |>>>|[{}\[\]|]|import |from \S+ import |def |class |const |let |var |return )"
    r"|\s*\[?\d{4}-\d\d-\d\d[T ]\d\d:|\s*\[?\d\d:\d\d:\d\d|\s*(?:\S+ )?\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|TRACE|"
    r"FATAL)\b"
    r"|.*(?:[;{]|\)\s*=>|\(\);?)\s*$"
)
"""Matches a line that begins or ends as quotations, code or logs do."""
_SPEAKER = re.compile(r"\s*[\[(*]*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2})[\])*]*:\s+(?=\S)")
"""A name with a colon, as in a transcript or the header of a letter."""
_ITEM = re.compile(r"\s*(?:[-*•+–]|\(?\d{1,2}[.)]|[a-z]\))\s+")
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|(?<=[。！？])")


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
        if not line[0].strip() or _NOT_SAID.match(line[0]):
            continue
        item = _ITEM.match(line[0])
        at = item.end() if item else 0
        speaker = _SPEAKER.match(line[0], at)
        if speaker and not any(language.label.fullmatch(speaker[1]) for language in LANGUAGES):
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
    words = Words.of(blanked)
    for language in LANGUAGES:
        if not language.has_cue(blanked, words):
            continue
        taken = _taken_back(language, blanked)
        held = _held(language, blanked, is_item)
        if taken:
            about, alone = taken
            yield Statement(
                StatementKind.TAKE_BACK,
                " ".join(sentence.split())[:MAX_SENTENCE_CHARS],
                start,
                about,
                alone and not held,
            )
        if held:
            kind, at = held
            text, offset = _excerpt(sentence, at)
            yield Statement(kind, text, start + offset)
        if taken or held:
            return


def _taken_back(language: Language, sentence: str) -> tuple[str, bool] | None:
    """What the sentence takes back, and whether the sentence may be an instruction itself."""
    found = language.take_back.match(sentence)
    if found is None or _is_question(language, sentence):
        return None
    about = next((group for group in found.groups() if group), "").strip()
    return (about, found["stop"] is not None) if about else None


def _held(language: Language, sentence: str, is_item: bool) -> tuple[StatementKind, int] | None:
    """The kind of the statement in the sentence, and the position of its cue."""
    if found := language.polite.search(sentence):
        return StatementKind.INSTRUCTION, found.start(1)
    if not _is_question(language, sentence):
        for kind, pattern in (
            (StatementKind.IDENTITY, language.identity),
            (StatementKind.REMEMBER, language.remember),
        ):
            if (found := pattern.search(sentence)) and not language.says.search(sentence, 0, found.start(1)):
                return kind, found.start(1)
        if (at := _instruction(language, sentence, is_item)) is not None:
            return StatementKind.INSTRUCTION, at
    found = language.prefer.search(sentence)
    if found and not is_item and not _is_asked_or_told(language, sentence, found.start(1)):
        return StatementKind.PREFERENCE, found.start(1)
    return None


def _instruction(language: Language, sentence: str, is_item: bool) -> int | None:
    """Position of an instruction that holds from now on; None if there is none."""
    lasts = language.lasting.search(sentence) is not None
    always = language.always.search(sentence)
    if always and (lasts or not is_item):
        return always.start(1)
    if lasts and (found := language.directs.search(sentence)):
        return 0 if language.lasting.search(sentence[: found.start(1)]) else found.start(1)
    return None


def _is_question(language: Language, sentence: str) -> bool:
    return sentence.rstrip("\"'”’)] ").endswith(("?", "？")) or language.asks.match(sentence) is not None


def _is_asked_or_told(language: Language, sentence: str, at: int) -> bool:
    """Whether the text at `at` is part of a question, or something that somebody else says."""
    if language.says.search(sentence, 0, at) or language.asks.match(sentence):
        return True
    return sentence.endswith(("?", "？")) and not re.search(r"[,;:–—(]", sentence[at:])


_CLAUSE_END = re.compile(r"[,;:–—](?=\s)")
_ENOUGH = 80
"""Characters of a long sentence, from its cue on, that are always kept."""


def _excerpt(sentence: str, at: int) -> tuple[str, int]:
    """Return the sentence and 0; of a long one the part around the cue at `at`, and the position of that part."""
    text = " ".join(sentence.split())
    if len(text) <= MAX_SENTENCE_CHARS:
        return text, 0
    end = next((one.start() for one in _CLAUSE_END.finditer(sentence, at + _ENOUGH)), len(sentence))
    start = 0 if end <= MAX_SENTENCE_CHARS else at
    part = sentence[start : min(end, start + MAX_SENTENCE_CHARS)]
    if end > start + MAX_SENTENCE_CHARS:
        part = part.rpartition(" ")[0] or part
    return " ".join(part.split()) + (" …" if start + len(part) < len(sentence) else ""), start
