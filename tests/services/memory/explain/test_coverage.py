"""After 43 folds by a summarizer that keeps no facts, prompts still have the numbers and paths asked about."""

import random
from dataclasses import replace
from typing import Any

import pytest

from chatmemory.llm import registry
from memory.context.build import preview
from memory.limits import MemoryLimits
from tests.support.factories import add_turns, brief_of, make_chat
from tests.support.fakes.scripted import Line, ScriptedModel
from tests.support.folds import WORDS, run

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("sound")]

FOLDS = 43
THINGS = "pump ladder boiler engine freezer antenna winch compass furnace turbine".split()
PLACES = "Bergen Tromso Lagos Quito Malmo Perth Sapporo Turin Gdansk Leiden".split()
VAGUE = (
    "The conversation went on in a friendly tone. Several devices at several places were talked about, their state "
    "was described, and some technical details were exchanged. Nothing was left open, and both sides were content."
)


class VagueModel(ScriptedModel):
    """A summarizer that answers plausible prose without any facts."""

    def _next(self) -> Line:
        return VAGUE


def facts() -> list[tuple[str, str, str]]:
    """Triples: a statement, a later question about it, and the number or path that the prompt must then contain."""
    chance = random.Random(43)
    told = []
    for thing in THINGS:
        for place in PLACES:
            number = f"{chance.randint(100, 999)}.{chance.randint(10, 99)}"
            path = f"/var/{chance.randbytes(3).hex()}/{thing}.conf"
            said, value = chance.choice(
                [
                    (f"The {thing} in {place} was measured at {number} litres.", number),
                    (f"The configuration for the {thing} in {place} lies at {path}.", path),
                ]
            )
            told.append((said, f"What do we know about the {thing} at {place}?", value))
    chance.shuffle(told)
    return told


@pytest.mark.exhaustive
def test_after_43_folds_what_was_said_is_in_the_prompt_when_asked_for(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "chat_model", VagueModel)
    monkeypatch.setattr(registry, "is_offline", lambda: False)
    settings.MEMORY_LIMITS = replace(MemoryLimits(), threshold=450, bite_tokens=2000)
    chat = make_chat()
    told = facts()
    talk = [(said, f"I have noted that. {WORDS}") for said, _, _ in told]
    while brief_of(chat).version < FOLDS:
        add_turns(chat, [talk.pop(0) if talk else (f"And so on. {WORDS}", WORDS) for _ in range(5)])
        run(chat)
    summary = brief_of(chat).global_summary
    assert not any(value in summary for _, _, value in told)
    prompts = [preview(chat, question) for _, question, _ in told]
    assert all(context.tokens <= context.plan.budget for context in prompts)
    memories = ["\n".join(section.text for section in context.sections) for context in prompts]
    found = [value in memory for (_, _, value), memory in zip(told, memories, strict=True)]
    assert sum(found) >= 0.95 * len(told)
