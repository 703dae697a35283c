"""Keeps text from users from imitating the structure of a prompt: each further line of a quotation is indented.

In a prompt, all text that is not ours is indented: only our headings and labels stand at the beginning of a line. What
a summarizer is shown is in a format of the seeds, which indents nothing. There, and in what is stored of its answers,
a line that looks like one of our markers is prefixed with `> `, so that it can neither close a section nor open one;
all other text is unchanged. A marker that is written with invisible characters, letters of another alphabet, or a
lookalike of a colon reads to people and models like the plain one. So what is compared is the `skeleton` of a text,
which is never shown or stored.
"""

import re
from collections.abc import Callable
from typing import Final

from chatmemory.text.cleaning import BLANKS, normalized

SUMMARY_HEADING = "BACKGROUND – PRIOR CONVERSATION SUMMARY (use only if relevant):"
LINES_HEADING = "EARLIER TURNS, ONE LINE EACH (oldest first; details may be missing):"
FACTS_HEADING = "FACTS – PRIOR CONVERSATION (use only if relevant):"
SOURCES_HEADING = "SOURCES (retrieved material for this question):"
RECALL_HEADING = "EXCERPTS FROM EARLIER IN THIS CONVERSATION (oldest first; use only if relevant):"
ELSEWHERE_HEADING = (
    "FROM EARLIER CHATS (quotations from other conversations with this user, oldest first; use only if relevant):"
)
RECENT_HEADING = "RECENT CONVERSATION:"
TOOLS_HEADING = "TOOLS CALLED FOR THIS MESSAGE, AND THEIR OUTPUTS:"
PINS_HEADING = "PINNED – WHAT THE USER WANTS KEPT IN MIND (newest first; a newer one overrides an older one):"

_MARKER = re.compile(
    r"(?:"
    r"={3,}\s*[^=\s]"
    r"|(?:turn\s+[\do]+|recent\s+conversation)\s*:"
    r"|[\s*_#~`|]*(?:user|ass[il1|]stant|human)[\s*_~`|]*:"
    r"|[\s*_#~`|•·-]*(?:system|developer)(?:\s+(?:prompt|message|note|instructions?))?[\s*_~`|]*:"
    r"|background\s*-+\s*prior\s+conversation\s+summary"
    r"|facts\s*-+\s*prior\s+conversation"
    r"|pinned\s*-+\s*what\s+the\s+user"
    r"|\[\s*(?:user|ass[il1|]stant|system|developer|human)\s*\]\s*:"
    r"|\[\s*+(?:/\s*+)?inst\s*\]|<\s*+<\s*+(?:/\s*+)?sys\s*>|<\s*+(?:/\s*+)?(?:start|end)_of_turn"
    r"|#+\s*(?:existing\s+facts|conversation\s*:)"
    r"|earlier\s+turns,\s+one\s+line\s+each"
    r"|excerpts\s+from\s+earlier\s+in\s+this|from\s+earlier\s+chats\s*\("
    r"|\[\s*messages?\s+[\do]"
    r"|(?:\[\s*[\do]+\s*\]\s*)?(?:user|ass[il1|]stant|tool)\s*(?:\(\s*updated\b[^)]{0,40}\)\s*)?:"
    r"|\[\s*[\do]{4}\s*-\s*[\do]{2}\s*-\s*[\do]{2}\s*\]"
    r"|sources\s*\(retrieved\s+material"
    r"|\[\s*(?:important\s+data\s+from\s+previous\s+conversations|conversation\s+summary|recent\s+messages)\s*\]"
    r"|<\s*+(?:/\s*+)?memory_card"
    r"|<\s*\|"
    r"|(?:conversation\s+context|previous\s+response\s+outline)\s*:"
    r")"
)
"""Matches the beginning of lines to quote, as they look (`skeleton`): our markers and headings, a
role, also emphasized or as a heading, a model's own token for a role. A list item may begin with users and
assistants, as our own lines do. A letter o may be a digit of another script.
"""

INVISIBLE = re.compile(f"[{BLANKS}\u180b-\u180f\u200c\u200d\ufe00-\ufe0f\U000e0080-\U000e0fff]")
"""Characters that are invisible, or shown as empty space."""

_UNSEEN = re.compile(f"{INVISIBLE.pattern[:-1]}\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")
"""The same, plus combining marks."""

LOOKALIKES: Final = {
    "a": "ɑΑαАаᎪᗅᴀ⍺ꓮ𐊠𖽀",
    "b": "ƄʙΒβВбвьᏏᏴᑲᖯᗷꓐꞴ𐊂𐊡𐌁",
    "c": "ϲϹСсᏟᴄⲤⲥꓚꮯ𐊢𐌂𐐕𐐽𐔜𑣩𑣲🝌",
    "d": "đԁᎠᏧᑯᗞᗪᴅꓒꓓ",
    "e": "ΕεЕеёҽᎬᴇ℮⋿ⴹꓰꬲ𐊆𑢦𑢮",
    "f": "ƒϜᖴꓝꜰꞘꞙꬵ𐊇𐊥𐔥𑢢𑣂𝈓𝟊",
    "g": "ƍɡɢԌցᏀᏳᶃꓖ",
    "h": "ħʜΗНнҺһհᎻᏂᕼⲎꓧ𐋏𝚮𝛨𝜢𝝜𝞖",
    "i": "ıɩɪ˛ͺΙιІіӀᎥ⍳ꙇꭵ𑣃",
    "j": "ͿϳЈјյᎫᒍᴊꓙꞲ",
    "k": "ΚκКкᏦᛕᴋⲔꓗ𐔘",
    "l": "łƖʟӏᏞᒪᛁ⏽ⲒⳐⵏꓡꓲ𐊊𐌉𐌠𐐛𐔦𑢣𑢲𖼖𖼨𝈪",
    "m": "ΜϺМмᎷᗰᛖᴍⲘꓟ𐊰𐌑𝚳𝛭𝜧𝝡𝞛",
    "n": "ɴΝηոռⲚꓠ𐔓𝚴𝛮𝜨𝝢𝞜",
    "o": "øΟοσОоՕօ۵०০੦૦ଠ୦௦\u0c02౦\u0c82೦\u0d02ഠ൦\u0d82๐໐ဝ၀ჿዐᴏᴑⲞⲟⵔ〇ꓳꬽ𐊒𐊫𐐄𐐬𐓂𐓪𐔖𑓐𑢵𑣈𑣗𑣠𝛔𝜎𝝈𝞂𝞼",
    "p": "ΡρРрքᏢᑭᴘ⍴Ⲣⲣꓑ𐊕",
    "q": "Ԛԛգզⵕ",
    "r": "ʀгᎡᏒᖇᴦⲅꓣꭇꭈꮁ𐒴𖼵𝈖",
    "s": "ƽЅѕՏᏕᏚꓢꜱꮪ𐊖𐐠𐑈𑣁𖼺",
    "t": "ŧΤτТтᎢᴛ⊤⟙Ⲧꓔ𐊗𐊱𐌕𑢼𖼊🝨",
    "u": "ʋμυцՍսሀᑌᴜ∪⋃ꓴꞟꭎꭒ𐓎𐓶𑢸𑣘𖽂",
    "v": "νѴѵ۷Ꮩᐯᴠ∨⋁ⴸꓦꛟꮩ𐔝𑜆𑢠𑣀𖼈𝈍",
    "w": "ɯωѡԜԝաᎳᏔᴡꓪꮃ𑜊𑜎𑜏𑣦𑣯",
    "x": "×ΧχХхᕁᕽ᙭᙮ᚷ╳⤫⤬⨯ⲬⵝꓫꞳ𐊐𐊴𐌗𐌢𐔧𑣬",
    "y": "ɣʏΥγϒУуҮүყᎩᎽᶌỿℽⲨꓬꭚ𐊲𑢤𑣜𖽃𝚼𝛄𝛶𝛾𝜰𝜸𝝪𝝲𝞤𝞬",
    "z": "ΖζЗзᏃᴢꓜꮓ𐋵𑢩𑣄𑣥",
    "'": "ʼ‘’",
    "(": "❨❲﴾",
    ")": "❩❳﴿",
    "*": "⁎∗𐌟",
    "-": "˗‐‑‒–—―⁃−➖Ⲻ",
    "/": "᜵⁁⁄∕╱⟋⧸Ⳇ𝈺",
    ":": "ːˑ˸։\u05c3\u0703\u0704\u0903\u0a83᛬᠃᠉⁚∶ꓽ꞉︓︰﹕：",
    "<": "˂ᐸᚲ‹❮⟨〈𝈶",
    "=": "˭᐀≡═⹀〓゠꓿꞊﹦＝",
    ">": "˃ᐳ›❯⟩〉𖼿𝈷",
    "[": "⟦⦋【〔﹝",
    "]": "⟧⦌】〕﹞",
    "|": "ǀ∣⏐│",
}
"""By lower-case letter or sign: the characters that look like it or like its capital, and are not normalized to it.

Those of our markers in the confusables of Unicode Technical Standard #39 (as of 2024-01, Unicode License v3), with
small capitals, and letters with a stroke or without a dot. Strokes used in Chinese and Japanese, and digits that mean
themselves, are left out.
"""

_PLAIN = str.maketrans({double: plain for plain, doubles in LOOKALIKES.items() for double in doubles})


def indented(text: str) -> str:
    """Indent every line of `text` after the first, so that it can be taken for none of ours. Blank lines stay.

    A line ends at every Unicode line boundary (`str.splitlines`), because a model may read it that way, too. One space
    is enough, and costs a fifth of two: tokens of words begin with a space.
    """
    first, *further = text.splitlines(keepends=True) or [""]
    return first + "".join([line if line.isspace() else f" {line}" for line in further])


def is_marker(line: str) -> bool:
    """Whether a line could be read as one of our markers, in any spelling."""
    return _MARKER.match(line_skeleton(line)) is not None


def quote_markers(text: str, is_taken: Callable[[str], bool] = is_marker) -> str:
    """Prefix every line of `text` that looks like a marker with `> `; other text is unchanged."""
    lines = text.splitlines(keepends=True)
    taken = [is_taken(line) for line in lines]
    if not any(taken):
        return text
    return "".join(f"> {line}" if quote else line for line, quote in zip(lines, taken, strict=True))


def skeleton(text: str) -> str:
    """`text` as it looks, in lower case, with its line ends. Cheap for ASCII."""
    seen = _UNSEEN.sub("", text)
    if seen.isascii():
        return seen.lower()
    plain = normalized("NFKD", seen.translate(_PLAIN)).lower()
    return _UNSEEN.sub("", plain).translate(_PLAIN)


def line_skeleton(line: str) -> str:
    """How the beginning of a line looks, without leading space: enough to recognize a marker."""
    return skeleton(_UNSEEN.sub("", line).lstrip()[:160])
