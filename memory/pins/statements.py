"""What of a user's message holds until it is taken back: text → statements. Pure, by rule, in several languages.

Precision comes before recall: a question, a quotation, code, a log or a story about somebody else states nothing. The
cues of each language are in `memory.pins.wordings`; which statement replaces which is
`memory.pins.contradictions`'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from memory.pins.wordings import LANGUAGES
from memory.pins.wordings.cues import Words
from memory.pins.wordings.patterns import Language

LOOKED_AT = 2_000
"""Characters at each end of a message that are looked at: what stands between them was pasted, not said."""
WHOLE = 400
"""Characters up to which a sentence is kept whole; of a longer one the part from its cue on, as long at most."""
SHORT = 320
"""Characters up to which a message that states nothing but a preference is kept whole: the rest says what it is for."""
MOST = 8
"""Statements of one message. More is a document."""


class StatementKind(StrEnum):
    """What is stated."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"
    IDENTITY = "identity"
    REMEMBER = "remember"
    TAKE_BACK = "take_back"
    """An earlier statement holds no more. It is never kept itself."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of the user's, and where in the message it begins, in characters."""

    kind: StatementKind
    text: str
    start: int
    about: str = ""
    """Of something taken back: the words that say what."""
    stands_alone: bool = False
    """Of something taken back: where nothing like it was stated, it is an instruction itself."""


def statements(text: str) -> list[Statement]:
    """What `text` states, in its order. Its cost is bounded, however long it is."""
    found: list[Statement] = []
    for start, piece in _ends(text):
        words = Words.of(piece)
        if any(language.has_cue(piece, words) for language in LANGUAGES):
            for at, sentence, is_item in _sentences(_blanked(piece)):
                found += _stated(sentence, piece[at : at + len(sentence)], start + at, is_item)
    if (
        len(found) == 1
        and found[0].kind is StatementKind.PREFERENCE
        and len(text) <= SHORT
        and "\n" not in text.strip()
    ):
        return [replace(found[0], text=" ".join(text.split()), start=0)]
    return found if len(found) <= MOST else []


def _ends(text: str) -> list[tuple[int, str]]:
    """The parts of a message that are looked at, each with where it begins; whole lines of a long one."""
    if len(text) <= 2 * LOOKED_AT:
        return [(0, text)]
    head, tail = text[:LOOKED_AT], len(text) - LOOKED_AT
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
"""How a line begins, or ends, that is a quotation, code or a log."""
_SPEAKER = re.compile(r"\s*[\[(*]*([^\W\d_][\w.'’-]*(?: [^\W\d_][\w.'’-]*){0,2})[\])*]*:\s+(?=\S)")
"""A name with a colon, as in a transcript or a letter's head."""
_ITEM = re.compile(r"\s*(?:[-*•+–]|\(?\d{1,2}[.)]|[a-z]\))\s+")
_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]*(?=\s)|(?<=[。！？])")


def _blanked(text: str) -> str:
    """`text` with code and quotations blanked and straight apostrophes, of the same length."""
    text = text.replace("’", "'")
    for pattern in (_FENCED, _QUOTED, _INLINE):
        text = pattern.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    return text


def _sentences(text: str) -> Iterator[tuple[int, str, bool]]:
    """Each sentence that somebody may have said, with where it begins, and whether it is an item of a list."""
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
    """What one sentence states. `blanked` is what is looked at, `sentence` what was said."""
    words = Words.of(blanked)
    for language in LANGUAGES:
        if not language.has_cue(blanked, words):
            continue
        taken = _taken_back(language, blanked)
        held = _held(language, blanked, is_item)
        if taken:
            about, alone = taken
            yield Statement(
                StatementKind.TAKE_BACK, " ".join(sentence.split())[:WHOLE], start, about, alone and not held
            )
        if held:
            kind, at = held
            text, offset = _excerpt(sentence, at)
            yield Statement(kind, text, start + offset)
        if taken or held:
            return


def _taken_back(language: Language, sentence: str) -> tuple[str, bool] | None:
    """What the sentence takes back, and whether it may be an instruction itself."""
    found = language.take_back.match(sentence)
    if found is None or _is_question(language, sentence):
        return None
    about = next((group for group in found.groups() if group), "").strip()
    return (about, found["stop"] is not None) if about else None


def _held(language: Language, sentence: str, is_item: bool) -> tuple[StatementKind, int] | None:
    """What the sentence states to hold, and where its cue begins."""
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
    """Where an instruction that holds from now on begins; None where there is none."""
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
    """Whether what begins at `at` is part of a question, or something that somebody else says."""
    if language.says.search(sentence, 0, at) or language.asks.match(sentence):
        return True
    return sentence.endswith(("?", "？")) and not re.search(r"[,;:–—(]", sentence[at:])


_CLAUSE_END = re.compile(r"[,;:–—](?=\s)")
_ENOUGH = 80
"""Characters of a long sentence from its cue on that are kept at least."""


def _excerpt(sentence: str, at: int) -> tuple[str, int]:
    """The sentence, of a long one its part about the cue, which begins at `at`; and where that begins."""
    text = " ".join(sentence.split())
    if len(text) <= WHOLE:
        return text, 0
    end = next((one.start() for one in _CLAUSE_END.finditer(sentence, at + _ENOUGH)), len(sentence))
    start = 0 if end <= WHOLE else at
    part = sentence[start : min(end, start + WHOLE)]
    if end > start + WHOLE:
        part = part.rpartition(" ")[0] or part
    return " ".join(part.split()) + (" …" if start + len(part) < len(sentence) else ""), start
