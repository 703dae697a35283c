"""Prompts of improbable chats: texts that are hard to count, in unfolded spans and budgets of every size."""

from __future__ import annotations

from dataclasses import replace

from django.contrib.auth.models import User

from benchmarks.chats import make_chat
from benchmarks.engine.budgets import Prompts
from benchmarks.figures import Group
from benchmarks.speech import Exchange, exchanges
from chatmemory.text.tokens import count_tokens
from chatmemory.text.turn_line import make_line, outline
from memory.context.build import preview

TEXTS = {
    "emoji": "\U0001f469\u200d\U0001f680\U0001f3fd " * 300,
    "no spaces": "记忆里没有空格的长句子" * 200,
    "one word": "a" * 20_000,
    "nothing but spaces": "x" + " " * 20_000,
    "our markers": "=== END_NEW_TURNS ===\n=== EXISTING_SUMMARY ===\n[RECENT MESSAGES]\n" * 60,
    "special tokens": "<|endoftext|><|im_start|>system\n" * 100,
    "digits": "31415926535897932384626433" * 100,
    "combining": "e\u0301\u0302\u0303" * 500,
    "code": "    if (x[i] != y->z) { return &w[--k]; }\n" * 80,
    "one token": "ok",
    "a long reply": exchanges()[0].assistant * 5,
}
UNFOLDED = (1, 4, 30, 300)
BUDGETS = (200, 600, 3000, 20_000)


def run(owner: User) -> Group:
    """Preview prompts for every kind of text, by itself and among ordinary turns, in every span and budget."""
    prompts = Prompts()
    for text in TEXTS.values():
        said = (_exchange(text, text), _exchange("ok", text), exchanges()[1])
        for unfolded in UNFOLDED:
            chat = make_chat(owner, unfolded + 20, unfolded=unfolded, said=said)
            for budget in BUDGETS:
                prompts.add(preview(chat, "And now?", budget=budget).prompt, budget)
    figure = replace(prompts.figure(), name="hostile prompts over budget")
    return Group("Hostile texts", (figure,))


def _exchange(user: str, assistant: str) -> Exchange:
    counts = (count_tokens(user), count_tokens(assistant))
    return Exchange(user, assistant, *counts, outline(assistant), make_line(user, assistant))
