"""Cleans text: of NULs and lone surrogates before it is stored, of control tokens before it is sent; normalizes it.

PostgreSQL text cannot contain NULs, UTF-8 cannot contain lone surrogates, and JSON escapes can contain both. A
surrogate pair may arrive in two deltas, so its first half is held back until the next delta shows whether the second
follows. For memory, `without_invisible` removes invisible characters, too. `disarm` breaks the control tokens of chat
templates.
"""

import re
import unicodedata
from itertools import pairwise
from typing import Final, Literal

BLANKS: Final = (
    "\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Ranges of characters that no text needs to be read: controls, soft hyphen, letters that are blank, zero-width space,
bidi marks and embeddings, word joiner and similar characters, BOM, tags.
"""
_JOINERS = "\u200c\u200d\ufe00-\ufe0f\U000e0100-\U000e01ef"
# Joiners and variation selectors stay, because emoji and several scripts need them, but no more of them in a row than
# that takes: more could encode a hidden text.
_INVISIBLE = re.compile(f"[{BLANKS}\x0b-\x0d\x1c-\x1f\ud800-\udfff]|(?<=[{_JOINERS}][{_JOINERS}])[{_JOINERS}]+")


def clean(text: str) -> str:
    """Remove NULs, then join surrogate pairs, then replace every lone surrogate by U+FFFD."""
    text = text.replace("\0", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_invisible(text: str) -> str:
    """`text` without invisible characters: controls, direction marks, tags, lone surrogates."""
    return _INVISIBLE.sub("", text)


_SIGNS = re.compile(r"(?:[^\w\s]|[\uff9e\uff9f]){50}")


def normalized(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """`text` in a form of Unicode, in linear time.

    `unicodedata` sorts combining marks in quadratic time: a message of nothing else would take a minute, and hold up
    the whole process. So each 50 marks or signs in a row are normalized by themselves.
    """
    if text.isascii():
        return text
    cuts = [0, *(found.end() for found in _SIGNS.finditer(text)), len(text)]
    return "".join(unicodedata.normalize(form, text[start:end]) for start, end in pairwise(cuts))


class TextCleaner:
    """Cleans a text that arrives in deltas: the results of `feed` and the last `flush` join to `clean` of the whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """Return the text that is final by now; empty if the delta had only NULs or half a pair."""
        if not self._held and delta.isascii() and "\0" not in delta:
            return delta
        text = (self._held + delta).replace("\0", "")
        self._held = ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean(text)

    def flush(self) -> str:
        """Return what is kept back: U+FFFD for half a pair; otherwise an empty string."""
        held, self._held = self._held, ""
        return clean(held)


_ANGLED: Final = r"""
s bos eos eot eom eod sop eop eoh eoa pad unk mask sep cls
start_of_turn end_of_turn startoftext endoftext end_of_text end_of_utterance
im_start im_end im_sep start_of_role end_of_role think_start think_end
tool_call tool_calls tool_response tool_responses tool_result tool_results tool_output tool_outputs
function_call function_calls function_result function_results
image img start_of_image end_of_image image_soft_token start_of_audio end_of_audio audio_soft_token
fim_prefix fim_middle fim_suffix fim_pad file_sep repo_name
extra_id_\d+ unused_?\d+ reserved_\d+ (?i:special)_\d+ TOKENS_UNUSED_\d+ ctrl\d+ seed:\w{1,40}
""".split()
"""Names of tokens in angle brackets, such as `<s>` and `</s>`: ends of texts and turns, tools, images and audio,
fill-in-the-middle, and spare tokens, some of which models are trained to use for roles.
"""
_SQUARE: Final = r"""
INST SYSTEM_PROMPT MODEL_SETTINGS THINK AVAILABLE_TOOLS TOOL_CALLS TOOL_RESULTS TOOL_CONTENT CALL_ID ARGS
IMG IMG_BREAK IMG_END AUDIO BEGIN_AUDIO PREFIX MIDDLE SUFFIX CONTROL_\d+ UNUSED_TOKEN_\d+
gMASK sMASK MASK CLS SEP PAD UNK BOS EOS
""".split()
"""Names of tokens in square brackets."""

_OPEN, _CLOSE, _PIPE = "<＜", ">＞", "|｜"

_CONTROL = re.compile(
    # The first sign is a class of its own, for which the search runs in C (measured: a sixth of the time).
    rf"[{_OPEN}\[［\]](?:"
    rf"(?<=[{_OPEN}])(?:"
    # <|name|>, <|name> and <name|>; with wide bars also with spaces, which some tokenizers use for the letter ▁.
    rf"/?[{_PIPE}][^\s{_OPEN}{_CLOSE}]{{1,80}}(?=[{_CLOSE}])"
    rf"|｜[^\r\n{_OPEN}{_CLOSE}]{{1,80}}｜(?=[{_CLOSE}])"
    rf"|[^\s{_OPEN}{_CLOSE}]{{1,80}}[{_PIPE}](?=[{_CLOSE}])"
    rf"|/?(?:{'|'.join(_ANGLED)})(?=[{_CLOSE}])"
    rf"|[{_OPEN}]/?SYS(?=[{_CLOSE}]{{2}})"
    ")"
    rf"|(?<=[\[［])/?(?:{'|'.join(_SQUARE)})(?=[\]］])"
    rf"|(?<=\[)[{_PIPE}][^\s\[\]]{{1,80}}[{_PIPE}](?=\])"
    r"|(?<=\[)e~(?=\[)"
    r"|(?<=\])~!?b(?=[\[\]])"
    ")"
)
"""Matches a token up to the sign that closes it."""


def disarm(text: str) -> str:
    """Break every control token of a chat template in `text`; other text is unchanged. Idempotent.

    A self-hosted server renders the messages by the model's template into one text, and tokenizes that: a message that
    contains `<|im_start|>` thereby begins another message, in any role. llama.cpp, Ollama and vLLM all behave so
    unless a template prevents it, and no field of their API turns it off. So one space is inserted before the sign
    that closes such a token: `<|im_start| >`, `</s >`, `[INST ]`. It stays readable, `<s >` is still the same tag in
    HTML, and it is no longer a token. A change of the tokens changes prompts, so raise
    `memory.context.plan.RENDERER` with it.
    """
    return _CONTROL.sub(r"\g<0> ", text)
