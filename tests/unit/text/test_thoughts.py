"""A model's thoughts, and the words around its answer, are taken out."""

import pytest

from chatmemory.llm.protocol import Completion
from chatmemory.text.thoughts import visible_text
from memory.policies.answers import answer_text, object_in
from memory.policies.protocol import Refusal


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>so\nlong</think>\n\nKiel.", "Kiel."),
        ("The user wants Kiel.</think>Kiel.", "Kiel."),
        ("<THINK>a</THINK>Ki<Reasoning>b</Reasoning>el<thought>c</thought>", "Kiel"),
        ("<thinking>a <think>b</think> c</thinking>Kiel.", "Kiel."),
        ("[THINK]hm[/THINK]Kiel.", "Kiel."),
        ("Write `<think>` and `</think>`.", "Write `<think>` and `</think>`."),
        ("<think>a</think>Sure! Here is the updated summary:\n\n```text\nKiel.\n```", "Kiel."),
        ("**Updated summary:**\nKiel.", "Kiel."),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Kiel.<|return|>", "Kiel."),
        ("<|channel|>analysis<|message|>a<|end|>Kiel.<|end|>", "Kiel."),  # llama.cpp
        ("<|channel|>commentary<|message|>a<|end|><|channel|>final <|constrain|>json<|message|>Kiel.", "Kiel."),
        ("analysisWe need a city.assistantfinalKiel.", "Kiel."),  # without the tokens
        ("<|channel>thought\na<channel|>Kiel.", "Kiel."),
        ("a<channel|>Kiel.<end_of_turn>", "Kiel."),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Kiel.<|END_RESPONSE|>", "Kiel."),
        ("<think>a</think>\n<answer>\nKiel.\n</answer><|im_end|>", "Kiel."),
        ("<analysis>a</analysis>\n\n<summary>\nKiel.\n</summary>", "Kiel."),
        ("The tag is <summary>, its end </summary>", "The tag is <summary>, its end </summary>"),
        ("Use `<|end|>` at the end.<|end|>", "Use `<|end|>` at the end."),
        ("Here are the user's preferences: tea.", "Here are the user's preferences: tea."),
    ],
)
def test_answer_is_read_without_thoughts_preface_and_fence(text: str, answer: str) -> None:
    assert answer_text(Completion(text, "m")) == answer


@pytest.mark.parametrize(
    "text",
    [
        *("<think>The user said", "Kiel.\n<THINKING>and", "<think>a</think><think>b"),
        *("<|channel|>analysis<|message|>The user", "<|channel>thought\nThe user"),
    ],
)
def test_answer_with_an_unended_thought_is_truncated(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        answer_text(Completion(text, "m"))
    assert refused.value.reason == "truncated"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('<think>{"a": "draft"}</think>{"a": "answer"}', {"a": "answer"}),
        ('A draft: {"a": "draft"}\n{"a": "answer",}\n{}', {"a": "answer"}),
        ('{"a": "answer"} {"a": [{"b": "half"}', {"a": "answer"}),
    ],
)
def test_last_whole_object_is_the_answer(text: str, value: dict[str, str]) -> None:
    assert object_in(text) == value


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("<think>draft</think>\nKiel.", "Kiel."),
        ("<think>cut off", ""),
        ("The tag <think> opens.", "The tag <think> opens."),
    ],
)
def test_reply_is_read_by_memory_without_thoughts(reply: str, read: str) -> None:
    assert visible_text(reply) == read
    assert visible_text(reply, "user") == reply
