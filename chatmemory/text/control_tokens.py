"""Disarms control tokens of chat templates in text from outside, so that no server reads them as its own.

A self-hosted server renders the messages by the model's template into one text, and tokenizes that: a message that
contains `<|im_start|>` thereby begins another message, in any role. llama.cpp, Ollama and vLLM all behave so unless a
template prevents it, and no field of their API turns it off. So one space is inserted before the sign that closes
such a token: `<|im_start| >`, `</s >`, `[INST ]`. It stays readable, `<s >` is still the same tag in HTML, and it is
no longer a token. Data and pure functions; a change of the tokens changes prompts, so raise
`memory.context.plan.RENDERER` with it.
"""

from __future__ import annotations

import re
from typing import Final

_ANGLED: Final = (
    # The beginning and the end of texts and turns.
    *("s", "bos", "eos", "eot", "eom", "eod", "sop", "eop", "eoh", "eoa", "pad", "unk", "mask", "sep", "cls"),
    *("start_of_turn", "end_of_turn", "startoftext", "endoftext", "end_of_text", "end_of_utterance"),
    *("im_start", "im_end", "im_sep", "start_of_role", "end_of_role", "think_start", "think_end"),
    # Tools.
    *("tool_call", "tool_calls", "tool_response", "tool_responses", "tool_result", "tool_results"),
    *(
        "tool_output",
        "tool_outputs",
        "function_call",
        "function_calls",
        "function_result",
        "function_results",
    ),
    # Images and audio.
    *("image", "img", "start_of_image", "end_of_image", "image_soft_token", "start_of_audio", "end_of_audio"),
    "audio_soft_token",
    # Fill-in-the-middle for code.
    *("fim_prefix", "fim_middle", "fim_suffix", "fim_pad", "file_sep", "repo_name"),
    # Spare tokens, some of which models are trained to use for roles.
    *(
        r"extra_id_\d+",
        r"unused_?\d+",
        r"reserved_\d+",
        r"(?i:special)_\d+",
        r"TOKENS_UNUSED_\d+",
        r"ctrl\d+",
    ),
    r"seed:\w{1,40}",
)
"""Names of tokens in angle brackets, such as `<s>` and `</s>`."""
_SQUARE: Final = (
    *("INST", "SYSTEM_PROMPT", "MODEL_SETTINGS", "THINK", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS"),
    *("TOOL_CONTENT", "CALL_ID", "ARGS", "IMG", "IMG_BREAK", "IMG_END", "AUDIO", "BEGIN_AUDIO"),
    *("PREFIX", "MIDDLE", "SUFFIX", r"CONTROL_\d+", r"UNUSED_TOKEN_\d+"),
    *("gMASK", "sMASK", "MASK", "CLS", "SEP", "PAD", "UNK", "BOS", "EOS"),
)
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
    """Break every control token in `text`; other text is unchanged. Idempotent."""
    return _CONTROL.sub(r"\g<0> ", text)
