"""Takes a model's thoughts out of its text, and out of an answer also the words around it. Pure; linear in time.

Servers without a parser for reasoning (llama.cpp, Ollama, vLLM) leave the thoughts in the text, between tags. The
opening tag may be missing, because some templates put it into the prompt. A tag after a backtick is only mentioned.
"""

import re
from typing import Final

CLOSING_TAGS: Final = ("</think>", "</thinking>", "</reasoning>", "</thought>")

_TAG = re.compile(
    r"""(?<!`)(?:
    (?P<opens> <(?:seed:)?(?:think|thinking|reasoning|thought)> | \[THINK\] | ◁think▷
        | <\|channel\|>(?:analysis|commentary)[^<>|]{0,80}(?:<\|constrain\|>\w{0,20})?<\|message\|>  # gpt-oss
        | <\|channel>thought | <\|(?:think|inner_prefix|START_THINKING)\|> )  # Gemma 4, Solar, Apertus, Cohere
    | (?P<ends> <\|end\|> )  # also of an answer
    | </(?:seed:)?(?:think|thinking|reasoning|thought)> | \[/THINK\] | ◁/think▷
    | (?:<\|start\|>assistant)?<\|channel\|>final\ ?(?:<\|constrain\|>\w{0,20})?<\|message\|> | assistantfinal
    | <channel\|> | <\|(?:content|inner_suffix|END_THINKING|START_RESPONSE)\|>
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_LAST_TOKENS = re.compile(r"(?:(?:<\|\w{1,30}\|>|</s>|<end_of_turn>)\s?){1,8}+\Z")
_LAST_TAG = re.compile(r"</(summary|answer|response|output)>\Z")
_FENCED = re.compile(r"(`{3,9}|~{3,9})[^`\n]*\n(.*)\n[ \t]*\1\s*\Z", re.DOTALL)
_WHAT = r"(?:summary|memory|card|json|object|version|notes|facts|story|answer|it\ is|it|you\ go)"
_PREFACE = re.compile(
    rf"""(?: (?:sure|certainly|of\ course|okay|ok|absolutely|got\ it|great|understood|alright)\b[ ,.!:—–-]{{0,9}} )?
    (?: (?:here(?:['’]s|\ is|\ are)?|below\ is|this\ is|the\ following\ is)\b[^\n:]{{0,60}}?\b{_WHAT}\b[^\n:]{{0,60}}
        (?: : | [.!]?[ ]{{0,9}}\n )
    | [\#*_ ]{{0,9}}(?:the\ )?(?:(?:updated|new|revised|merged|final|current)\ )?(?:conversation\ )?(?:summary|memory)
        [*_]{{0,9}}(?: : | [ ]{{0,9}}\n )
    | (?<=[,.!:—–-])\n
    )[*_]*\s*""",
    re.IGNORECASE | re.VERBOSE,
)


def without_thoughts(text: str) -> tuple[str, str]:
    """Return a text without its thoughts, and the thought at its end that has no closing tag; "" if there is none.

    What comes before a closing tag without an opening one is a thought, too.
    """
    # As nearly always: each turn asks this of two dozen texts. Servers may leave out the tokens of gpt-oss.
    if not any(mark in text for mark in ("<", "[", "◁", "assistantfinal")):
        return text, ""
    kept: list[str] = []
    at, opened = 0, -1
    for tag in _TAG.finditer(text):
        if tag["opens"] or (tag["ends"] and opened < 0):
            opened = tag.start() if opened < 0 and tag["opens"] else opened
            continue
        if opened < 0:
            kept.clear()
        else:
            kept.append(text[at:opened])
        at, opened = tag.end(), -1
    kept.append(text[at : opened if opened >= 0 else None])
    return "".join(kept), text[opened:] if opened >= 0 else ""


def visible_text(text: str, role: str = "assistant") -> str:
    """Return a message as memory reads it: of a reply, without its thoughts.

    An opening tag within a line, without a closing one, is only mentioned.
    """
    if role != "assistant":
        return text
    kept, thought = without_thoughts(text)
    is_thought = not kept.rpartition("\n")[2].strip()
    kept = kept if is_thought else kept + thought
    return text if kept == text else kept.strip()


def bare(text: str) -> str:
    """Return an answer without a preface ("Sure! Here is the updated summary:"), and a fence or a tag around it all."""
    for _ in range(2):
        text = text.strip()
        if found := _LAST_TOKENS.search(text, max(0, len(text) - 100)):
            text = text[: found.start()].rstrip()
        if found := _LAST_TAG.search(text, max(0, len(text) - 20)):
            before, tag, answer = text[: found.start()].partition(f"<{found[1]}>")
            text = answer.strip() if tag and before.strip()[:1] in ("", "<") else text
        if found := _PREFACE.match(text):
            text = text[found.end() :]
        if fenced := _FENCED.fullmatch(text):
            text = fenced[2]
    return text.strip()
