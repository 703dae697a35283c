"""Conversations of ChatGPT and Claude, however odd: what counts is read, and the rest is left out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from conversations.interchange.read import read_service
from conversations.interchange.services import source_id
from conversations.interchange.values import FormatError
from tests.support.exports import NO_PARENT, Json, chatgpt, claude, node, said

IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://x"}


def told(value: Json) -> list[tuple[str, str]]:
    chat, _ = read_service(value)
    return [(message.role, message.content) for message in chat.messages]


def test_a_conversation_of_chatgpt() -> None:
    chat, images = read_service(chatgpt("c1"))
    assert (chat.title, chat.metadata, images) == ("Herons", {"source_id": "chatgpt:c1"}, 0)
    assert chat.created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    question, answer = chat.messages
    assert (question.role, question.content) == ("user", "What is c1?")
    assert (answer.reply_to, answer.model) == (1, "gpt-4o")
    assert answer.created_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)


def test_a_conversation_of_claude() -> None:
    chat, images = read_service(claude("c2"))
    assert (chat.title, chat.metadata, images) == ("Reeds", {"source_id": "claude:c2"}, 0)
    assert chat.created_at == datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    assert told(claude("c2")) == [("user", "What is c2?"), ("assistant", "c2 it is.")]


def branched(current: Any) -> Json:
    nodes = [
        node("q", "root", "user", "Q"),
        node("a1", "q", "assistant", "first"),
        node("a2", "q", "assistant", "second"),
    ]
    return chatgpt("c", *nodes, current=current)


@pytest.mark.parametrize(
    ("current", "answer"), [("a1", "first"), ("a2", "second"), ("gone", "second"), ([1], "second")]
)
def test_of_branches_that_counts_which_was_shown_last(current: Any, answer: str) -> None:
    assert told(branched(current)) == [("user", "Q"), ("assistant", answer)]


@pytest.mark.parametrize(("leaf", "answer"), [("b", "first"), (None, "second")])
def test_claude_has_branches_too(leaf: str | None, answer: str) -> None:
    messages = [
        said("human", "Q", uuid="a", parent_message_uuid=NO_PARENT),
        said("assistant", "first", uuid="b", parent_message_uuid="a"),
        said("assistant", "second", uuid="c", parent_message_uuid="a"),
    ]
    assert told(claude("c", *messages, current_leaf_message_uuid=leaf)) == [
        ("user", "Q"),
        ("assistant", answer),
    ]


def test_what_is_hidden_thought_or_done_with_tools_is_no_text() -> None:
    nodes = [
        node("s", "root", "system", "secret"),
        node("h", "s", "user", "hidden", metadata={"is_visually_hidden_from_conversation": True}),
        node("i", "h", "user", "mine", kind="user_editable_context"),
        node("q", "i", "user", "Q"),
        node("t", "q", "assistant", "hm", kind="thoughts"),
        node("c", "t", "assistant", "print(1)", kind="code", recipient="python"),
        node("o", "c", "tool", "1", kind="execution_output"),
        node("e", "o", "assistant", ""),
        node("a", "e", "assistant", "See \ue200cite\ue202turn0search0\ue201 it."),
    ]
    assert told(chatgpt("c", *nodes)) == [("user", "Q"), ("assistant", "See  it.")]


def test_images_are_counted_and_marked() -> None:
    nodes = [
        node("q", "root", "user", IMAGE, IMAGE, "Both?", kind="multimodal_text"),
        node("t", "q", "tool", IMAGE, kind="multimodal_text"),
        node(
            "v",
            "t",
            "user",
            {"content_type": "audio_transcription", "text": "spoken"},
            kind="multimodal_text",
        ),
    ]
    assert read_service(chatgpt("c", *nodes))[1] == 3
    assert told(chatgpt("c", *nodes)) == [("user", "Both?\n\n[image]\n\n[image]"), ("user", "spoken")]
    files = [{"file_name": "a.PNG"}, {"file_kind": "image", "file_name": "b"}, {"file_name": "c.pdf"}]
    pasted = [{"file_name": "", "extracted_content": "A long text."}]
    message = {**said("human", ""), "content": [], "files": files, "attachments": pasted}
    assert read_service(claude("c", message))[1] == 2
    assert told(claude("c", message)) == [("user", "A long text.\n\n[image]\n\n[image]")]


ODD: list[tuple[Json, list[str]]] = [
    (chatgpt("c", node("q", "a", "user", "Q"), node("a", "q", "assistant", "A")), ["Q", "A"]),  # a circle
    (chatgpt("c", node("q", "gone", "user", "Q")), ["Q"]),
    (chatgpt("c", node("q", "root", "user", None, 7, [], {}, "Q")), ["Q"]),
    (chatgpt("c", node("q", "root", "user", "Q", create_time="then", metadata=[], author={})), []),
    (chatgpt("c", node("q", "root", "user", "Q", create_time=1e300)), ["Q"]),
    (chatgpt("c", {"id": "q"}, {"id": "r", "message": "?", "parent": ["q"]}), []),
    (chatgpt("c", node("q", "root", "user", "a\0b \ud800"), title=None), ["ab \ufffd"]),
    (chatgpt("c", node("q", "root", "user", "x" * 1_000_000)), ["x" * 1_000_000]),
    ({"mapping": {"q": 7}, "id": "c"}, []),
    (claude("c", {}, {"sender": "human"}, {"sender": "someone", "text": "?"}, said("human", "Q")), ["Q"]),
    ({"uuid": "c", "chat_messages": [7, None]}, []),
    (claude("c", said("human", "Q", created_at="0001-01-01T00:00:00+14:00"), name=7), ["Q"]),
    ({"uuid": "c", "chat_messages": []}, []),
    (claude("c", said("human", "Q"), mapping=7), ["Q"]),
]


@pytest.mark.parametrize(("value", "texts"), ODD)
def test_what_is_odd_is_left_out(value: Json, texts: list[str]) -> None:
    assert [text for _, text in told(value)] == texts


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"mapping": {}, "conversation_id": "a", "id": "b"}, "chatgpt:a"),
        ({"mapping": {}, "id": "b\0"}, "chatgpt:b"),
        ({"mapping": {"n1": {}, "n2": {}}}, "chatgpt:n1"),
        ({"chat_messages": [], "uuid": "u"}, "claude:u"),
        ({"mapping": {}}, None),
        ({"mapping": [], "id": "a"}, None),
        ({"chat_messages": []}, None),
        ({"messages": []}, None),
        (None, None),
        (["mapping"], None),
    ],
)
def test_its_id_is_the_same_in_each_export(value: Any, name: str | None) -> None:
    if name is None:
        with pytest.raises(FormatError, match="not a conversation of"):
            source_id(value)
    else:
        assert source_id(value) == name
