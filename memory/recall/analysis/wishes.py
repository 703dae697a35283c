"""Words by which people state what they want in general: a preference, a rule, something to avoid. Only data.

A message with one of them gets the term `WISH` in the index (`memory.recall.analysis.hashed_terms`), so that a
question for help finds it more easily. That is less strict than a pin (`memory.pins`), which is in every prompt.
"""

from __future__ import annotations

from collections.abc import Collection

from memory.recall.analysis.stemming import stem

WISH = "=wish"
"""The term of such a passage. No word of a text has it, because words begin with a letter or a digit."""

_ENGLISH = "prefer prefers preferred preference preferences favourite favorite rather always never avoid dislike hate"
_GERMAN = "bevorzuge bevorzugen lieber liebsten immer stets niemals vermeide vermeiden"
_FRENCH = "prefere prefererais preferes toujours jamais evite eviter evitez plutot"
_SPANISH = "prefiero preferiria favorito favorita siempre nunca evita evitar"
_ITALIAN = "preferisco preferirei preferito preferita sempre evita evitare piuttosto"
_PORTUGUESE = "prefiro preferiria favorito favorita sempre nunca evite evitar"
_DUTCH = "liever liefst voorkeur altijd nooit vermijd vermijden"
_POLISH = "wole wolałbym wolałabym zawsze nigdy unikaj unikac"
_RUSSIAN = "предпочитаю предпочел предпочла лучше всегда никогда избегаи избегать"

_WISHES = frozenset(
    stem(word)
    for words in (_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH, _POLISH, _RUSSIAN)
    for word in words.split()
)
"""Terms, folded and stemmed as in `memory.recall.analysis.terms`."""


def states_wish(terms: Collection[str]) -> bool:
    """Whether a passage with these terms may state a wish."""
    return not _WISHES.isdisjoint(terms)
