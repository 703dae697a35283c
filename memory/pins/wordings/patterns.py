"""How people say, in one language, what holds until it is taken back: patterns, and nothing that decides.

A pattern with a group says by it where its cue begins. Sentences come without quotations, with straight apostrophes.
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
"""What stands before a colon that is no speaker."""
NAME = r"(?-i:[^\W\d_a-zà-ÿąćęłńśźżа-яё][\w'.-]+)"
"""A word with a capital."""


@dataclass(frozen=True, slots=True)
class Language:
    """The patterns of one language."""

    code: str
    cue: re.Pattern[str]
    """What a text has in which any other pattern could find something: a quick look."""
    openings: Openings
    """How such a cue begins: a look that is quicker still."""
    always: re.Pattern[str]
    """An instruction that says itself that it always holds."""
    lasting: re.Pattern[str]
    """From now on, whenever I ask, in all answers: what makes an instruction hold."""
    directs: re.Pattern[str]
    """A clause that tells the reader to do something."""
    polite: re.Pattern[str]
    """The same as `always`, put as a question."""
    prefer: re.Pattern[str]
    identity: re.Pattern[str]
    remember: re.Pattern[str]
    take_back: re.Pattern[str]
    """From a sentence's beginning; its groups say what is taken back. The group `stop` may be an instruction, too."""
    asks: re.Pattern[str]
    """How a question begins."""
    says: re.Pattern[str]
    """Before a clause: that somebody else says it, or only supposes it."""
    label: re.Pattern[str] = re.compile(_LABELS, re.IGNORECASE)

    def has_cue(self, text: str, words: Words) -> bool:
        """Whether anything could be found in `text`, whose words are given."""
        return self.openings.may_be_among(words) and self.cue.search(text) is not None


def any_of(*ways: str) -> str:
    """A pattern that is one of several."""
    return "|".join(ways)


def language(code: str, *, fillers: str, links: str, leads: str, **parts: str) -> Language:
    """`fillers` may precede any clause, and so may `leads`, which say that it lasts; `links` join clauses."""
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
"""What stands at the beginning of a sentence, without a group of its own."""
