"""The patterns that describe how one language words statements that hold until they are taken back. Decides nothing.

In a pattern with a group, the group begins at the cue. Sentences are searched without quotations and with straight
apostrophes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from memory.pins.wordings.cues import Openings, Words, openings

_LABELS = (
    r"note|notes|reminder|rules?|instructions?|preferences?|p\.?s\.?|fyi|important|attention|remember|request|"
    r"language|"
    r"tone|style|format|one (?:more )?thing|hinweis|wichtig|merke|regeln?|stil|sprache|remarque|règle|consigne|nota|"
    r"importante?|regla|regola|regra|let op|belangrijk|uwaga|ważne|zasada|важно|правило|примечание|запомни"
)
"""Words before a colon that do not name a speaker."""
NAME = r"(?-i:[^\W\d_a-zà-ÿąćęłńśźżа-яё][\w'.-]+)"
"""A word that begins with a capital letter."""


@dataclass(frozen=True, slots=True)
class Language:
    """The patterns of one language."""

    code: str
    cue: re.Pattern[str]
    """Matches every text in which any other pattern could match: a quick test."""
    openings: Openings
    """How such a cue begins: an even quicker test."""
    always: re.Pattern[str]
    """An instruction that says itself that it always holds."""
    lasting: re.Pattern[str]
    """Phrases that make an instruction last, such as "from now on", "whenever I ask", "in all answers"."""
    directs: re.Pattern[str]
    """A clause that tells the reader to do something."""
    polite: re.Pattern[str]
    """The same as `always`, phrased as a question."""
    prefer: re.Pattern[str]
    identity: re.Pattern[str]
    remember: re.Pattern[str]
    take_back: re.Pattern[str]
    """Matches at the start of a sentence; its groups are what is taken back. `stop` may be an instruction itself."""
    asks: re.Pattern[str]
    """The beginning of a question."""
    says: re.Pattern[str]
    """Precedes a clause that somebody else says, or that is only supposed."""
    label: re.Pattern[str] = re.compile(_LABELS, re.IGNORECASE)

    def has_cue(self, text: str, words: Words) -> bool:
        """Whether any pattern could match `text`, whose words are given."""
        return self.openings.may_be_among(words) and self.cue.search(text) is not None


def any_of(*ways: str) -> str:
    """Join patterns as alternatives."""
    return "|".join(ways)


def language(code: str, *, fillers: str, links: str, leads: str, **parts: str) -> Language:
    """Compile a language. Any clause may follow `fillers`, and `leads`, which make it last; `links` join clauses."""
    before = rf"(?:(?:{fillers}|{leads})\b[,:!.]?\s+)*"
    first = rf"^\W*{before}"
    clause = rf"(?:^\W*|[,;:–—(]\s*|\b(?:{links})\s+){before}"
    strict = rf"(?:^\W*|[:;–—]\s*|[,.]\s*(?:(?:{links})\s+)?){before}"
    places = {"always": strict, "directs": clause, "polite": first, "remember": first}
    places |= {"prefer": clause, "identity": clause}
    parts["lasting"] = rf"\b(?:{leads})\b|{parts['lasting']}"
    cues = f"{leads}|{parts['cue']}"
    parts["cue"] = rf"\b(?:{cues})\b"
    parts["says"] = rf"\b(?:{parts['says']})\b[^,;]*[,:;]?\s*$"
    patterns = {
        name: rf"{places[name]}({part})"
        if name in places
        else rf"{first}(?:{part})"
        if name in _FIRST
        else part
        for name, part in parts.items()
    }
    compiled = {name: re.compile(part, re.IGNORECASE) for name, part in patterns.items()}
    return Language(code, openings=openings(cues), **compiled)


_FIRST = ("take_back", "asks")
"""Patterns that match at the beginning of a sentence and are not wrapped in a group."""
