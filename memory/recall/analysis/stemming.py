"""Normalize words for the index: stop words, and a common stem for the forms of one word.

Texts and questions are treated alike, so a rule that is wrong for a language costs precision, but never a match.
There is no grammar: endings are removed where that is safe, and in other scripts only if they are case endings.
"""

from __future__ import annotations

import re

_ENGLISH = """
a about after again all also am an and any are as at be because been before being but by can could did do does doing
done down for from had has have having he her here hers him his how i if in into is it its just let may me might mine
more most must my no nor not now of off ok okay on once only or other our ours out over own please said same shall she
should so some such sure tell than thank thanks that the their theirs them then there these they this those through to
too under until up us very was we were what when where which while who whom whose why will with would yes you your yours
hello hi hey yeah yep oh well please get got know
"""
_GERMAN = """
aber als am an auch auf aus bei bin bis bist da damit dann das dass dem den der des dich die dies diese dieser dir doch
du ein eine einem einen einer eines er es euch fur habe haben hat hatte ich ihm ihn ihr im ist ja kann mein meine meinem
meinen meiner mich mir mit nach nein nicht noch nur ob oder schon sein seine sich sie sind so und uns unser von vor war
waren was wann warum weil welche welchen welcher welches wem wen wenn wer wie wir wird wo wurde zu zum zur bitte danke
"""
_FRENCH = """
ai au aux avec avez avons bonjour ce ces cet cette dans de des donc du elle elles en est et etait ete il ils je la le
les leur lui ma mais me mes merci moi mon ne nos notre nous on ont ou par pas plus pour qu que quel quelle quels quelles
qui sa sans se ses si son sont suis sur ta te tes toi ton tu un une vos votre vous
"""
_SPANISH = """
al como con cual cuales cuando de del donde el ella ellos en era es esa ese eso esta estaba este esto fue gracias ha han
hay he hola la las le les lo los mas me mi mis muy nos o para pero por porque que quien se si sin sobre son soy su sus
tambien te tengo tiene tu tus un una y ya yo
"""
_ITALIAN = """
che chi ci ciao come con cosa cui da dal dalla dei del della delle di dove e ed era gli grazie ha hanno ho i il in io la
le lei lo lui ma mi mia mio ne nel nella non o per piu qual quale quali quando quello questa questo se si sono su sul ti
tu un una uno
"""
_PORTUGUESE = """
ao aos as com como da das de do dos e ela ele em era essa esse esta este eu foi isso ja mais mas me meu minha na nao nas
no nos o obrigado onde os ou para pela pelo por porque qual quais quando que quem se sem ser seu sua tem um uma voce
"""
_DUTCH = """
aan als bij dan dat de den der deze die dit een en er had heb hebben heeft het hij hoe ik in is je jij kan maar me met
mij mijn naar niet nog of om onze ook op te tot uit van veel voor waar wanneer was wat we wel welke werd wie wij zijn zo
"""
_RUSSIAN = """
а бы был была были было в вам вас ваш вы где да для до его ее если есть еще же за и из или им их к как какая какие какой
каком когда кто ли меня мне мой моя мое мои мы на нам нас наш не нет но о об он она они оно от по при с со спасибо так
там то тоже только ты у уже что чтобы это этот эта эти я
"""
STOP_WORDS = frozenset(
    " ".join((_ENGLISH, _GERMAN, _FRENCH, _SPANISH, _ITALIAN, _PORTUGUESE, _DUTCH, _RUSSIAN)).split()
)
"""Folded as in `memory.recall.analysis.terms`: without case and accents."""

_LONG = 5
"""Letters that a word must have to lose -ies or a final e. A plural -s is removed from one letter less."""
_VOWEL = re.compile("[aeiouy]")
_CYRILLIC_END = re.compile(
    "(?:иями|ями|ами|ого|его|ому|ему|ыми|ими|иях|ях|ах|ов|ев|еи|ом|ем|ам|ям|ою|ею|ии|ои|ыи|ая|яя|ое|ее|ые|ие|ую|юю|ых"
    "|их|ым|им|ия|ию|ье|ья|ью|[аеиоуыьюя])$"
)
_ARABIC_START = re.compile("^(?:وال|بال|كال|فال|لل|ال)")
_ARABIC_END = re.compile("(?:ات|ون|ين|ية|ه|ة|ي)$")


def stem(word: str) -> str:
    """The common stem of the forms of `word` (folded, letters only); `word` itself if no rule is safe."""
    if word.isascii():
        return _ascii_stem(word)
    first = word[0]
    if "\u0400" <= first <= "\u04ff":
        return _shortened(_CYRILLIC_END, word)
    if "\u0600" <= first <= "\u06ff":
        return _shortened(_ARABIC_END, _shortened(_ARABIC_START, word, 3), 3)
    return word


def _ascii_stem(word: str) -> str:
    """Remove plural, -ing, -ed and a final e: the most common English endings, which are safe in other languages."""
    if len(word) < _LONG - 1 or not word.isalpha():
        return word
    if word.endswith("ies") and len(word) >= _LONG:
        return word[:-3] + "y"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        rest = word.removesuffix(ending)
        if rest != word and len(rest) >= 3 and _VOWEL.search(rest):
            word = rest
            break
    if len(word) >= _LONG and word.endswith("e"):
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


def _shortened(pattern: re.Pattern[str], word: str, at_least: int = 4) -> str:
    """Remove what `pattern` matches if at least `at_least` letters remain."""
    rest = pattern.sub("", word, count=1)
    return rest if len(rest) >= at_least else word
