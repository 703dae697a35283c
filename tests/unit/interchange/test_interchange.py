"""Files of every format are read into values, or refused with a sentence that names the place."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.attachments import Attachment
from conversations.interchange.read import read_chats
from conversations.interchange.values import FormatError, ImportedChat
from tests.support.images import data_url, png

HELLO = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi there"}]


def read_one(value: object) -> ImportedChat:
    [chat] = read_chats(json.dumps(value))
    return chat


def openai(*messages: dict[str, Any]) -> ImportedChat:
    return read_one({"messages": list(messages)})


def texts(chat: ImportedChat) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in chat.messages]


SAID = [("user", "Hello"), ("assistant", "Hi there")]


def test_lists_and_lines_of_any_format() -> None:
    values = [
        {"messages": HELLO},
        {"chats": [{"messages": HELLO}, {"messages": [{"role": "user", "text": "Hello"}, HELLO[1]]}]},
        {"conversations": [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Hi there"}]},
    ]
    lines = "\n\n".join(json.dumps(value) for value in values) + "\n"
    for text in (json.dumps(values), lines, lines.replace("\n", "\r\n"), "\ufeff" + lines):
        assert [texts(chat) for chat in read_chats(text)] == [SAID] * 4


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ([{"title": "T", "chat": {"title": "T", "messages": HELLO, "history": {"currentId": "a"}}}], "T"),  # Open WebUI
        (HELLO, "Hello"),
        (
            [{"role": one["role"], "content": [{"type": "text", "text": {"value": one["content"]}}]} for one in HELLO],
            "",
        ),
    ],
)
def test_shapes_of_one_conversation(value: Any, title: str) -> None:
    [chat] = read_chats(json.dumps(value))
    assert (texts(chat), chat.title, chat.left_out) == (SAID, title or "Hello", {})


def test_replies_answer_the_user_message_before() -> None:
    chat = openai(*HELLO, {"role": "assistant", "content": "Still there?"}, {"role": "user", "content": "Yes"})
    assert [message.reply_to for message in chat.messages] == [None, 1, 1, None]
    greeting = openai({"role": "assistant", "content": "Welcome"}, *HELLO)
    assert [message.reply_to for message in greeting.messages] == [None, None, 2]


def test_leading_system_messages_become_instructions_and_later_ones_are_left_out() -> None:
    later = {"role": "system", "content": "The user is now signed in."}
    chat = openai(
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "No lists."},
        *(HELLO[0], later, HELLO[1]),
    )
    assert (chat.instructions, texts(chat)) == ("Be brief.\n\nNo lists.", SAID)
    sharegpt = {"system": "Be brief.", "conversations": [{"from": "human", "value": "Hello"}]}
    assert read_one(sharegpt).instructions == "Be brief."


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "find"}}]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "42"}


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO[0], CALL, RESULT, HELLO[1]],
        [RESULT, *HELLO],
        [HELLO[0], {**CALL, **HELLO[1]}],
        [
            HELLO[0],
            {"role": "function_call", "content": "{}"},
            {"role": "observation", "content": "42"},
            HELLO[1],
        ],
    ],
)
def test_calls_that_are_incomplete_and_their_outputs_are_left_out(messages: list[Any]) -> None:
    assert texts(openai(*messages)) == SAID


@pytest.mark.parametrize(
    ("message", "role", "text"),
    [
        ({"role": "assistant", "content": None, "refusal": "I can't."}, "assistant", "I can't."),
        ({"role": "user", "content": ""}, "user", ""),
        ({"role": "assistant", "content": None}, "assistant", ""),
        ({"role": "user", "content": " \n", "status": "finished_successfully"}, "user", " \n"),
    ],
)
def test_a_refusal_is_text_and_an_empty_or_blank_text_stays(message: dict[str, Any], role: str, text: str) -> None:
    [found] = openai(message).messages
    assert (found.role, found.content, found.status) == (role, text, "complete")


def test_content_in_parts() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    photo = {"type": "image_url", "image_url": {"url": data_url(png(64, 48)), "detail": "low"}}
    parts = [
        {"type": "text", "text": "What is"},
        image,
        {"type": "input_text", "text": "this?"},
        photo,
        sound,
    ]
    [message] = openai({"role": "user", "content": parts}).messages
    assert message.content.startswith("What is\n[image: https://example.org/a.png]\nthis?\n[image: 64×48 PNG, ")
    link, stored = message.attachments
    assert link == Attachment("image", url="https://example.org/a.png")
    assert (stored.data, stored.detail) == (png(64, 48), "low")


def test_omitted_content_is_counted_and_marked_if_visible() -> None:
    audio = {"type": "input_audio", "input_audio": {"data": "x"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [audio]},
        {"role": "user", "content": ["Look", {"type": "image_url", "image_url": {"url": "data:,x"}}]},
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "f1"}}, {"type": "x"}]},
        {"role": "user", "content": "Beside", "files": [{"type": "image", "url": "data:"}]},
        {"role": "assistant", "content": "A", "reasoning_content": "Hm.", "tool_calls": [{"id": "c1"}]},
        {
            "role": "assistant",
            "content": [{"type": "thinking", "text": "Hm."}, {"type": "text", "text": "B"}],
        },
        {"role": "tool", "content": "1"},
        {"role": "system", "content": "later"},
    ]
    [chat] = read_chats(json.dumps({"messages": messages}))
    assert texts(chat) == [
        ("user", "[recording]"),
        ("user", "Look\n[image]"),
        ("user", "[file]"),
        ("user", "Beside"),
        ("assistant", "A"),
        ("assistant", "B"),
    ]
    assert chat.left_out == {
        "recordings": 1,
        "images": 1,
        "files": 2,
        "others": 1,
        "thoughts": 2,
        "tool_messages": 2,
        "system_messages": 1,
    }


def test_nuls_and_lone_surrogates_are_cleaned_away_everywhere() -> None:
    message_text = r'{"role": "user", "content": "a\u0000b\ud83d\ude00\ud83d", "metadata": {"k\u0000": ["\udc00"]}}'
    [message] = read_chats('{"messages": [' + message_text + "]}")[0].messages
    assert message.content == "ab😀\ufffd"
    assert message.metadata == {"k": ["\ufffd"]}


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("2026-03-01T10:00:00+02:00", datetime(2026, 3, 1, 8, tzinfo=UTC)),
        ("2026-03-01T10:00:00", datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (1772359200, datetime(2026, 3, 1, 10, tzinfo=UTC)),
        (None, None),
    ],
)
def test_times(value: object, time: datetime | None) -> None:
    [message] = openai({"role": "user", "content": "Hello", "created_at": value}).messages
    assert (message.created_at, message.completed_at) == (time, time)


OWN = {"format": "chatmemory/1"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the file is empty"),
        ("{", "not JSON: .* at line 1"),
        ('{"messages": []}\n{"messages": [}', "line 2: not JSON"),
        (
            '{"messages": []}\n{"messages": [{"role": "user"}]}',
            r'conversation 2 \(line 2\): message 1: "content" is missing',
        ),
        ('{"messages": ' + "[" * 200 + "]" * 200 + "}", "nested too deeply"),
        ('{"messages": [], "metadata": {"a": 1e999}}', "a number is too large, or none"),
        ('{"messages": [], "metadata": {"a": ' + "1" * 5000 + "}}", "a number is too large"),
        ("17", "conversation 1: it is not an object"),
        ('[{"messages": []}, {"text": "Hello"}]', "conversation 2: messages: it is missing; only OpenAI's"),
        ('{"messages": ["Hello"]}', "conversation 1: message 1: it should be a valid dictionary"),
        ('{"messages": [{"content": "a"}]}', "message 1: role: it is missing"),
        ('{"messages": [{"role": "ghost", "content": "a"}]}', 'message 1: role: "ghost" is not a known role'),
        ('{"messages": [{"role": "user", "content": 7}]}', "content: this is neither a string nor a list"),
        (
            '{"messages": [{"role": "user", "content": "a", "created_at": 1e300}]}',
            "created_at: it should be a valid datetime",
        ),
        ('{"messages": [], "title": 7}', "title: it should be a valid string"),
        ('{"messages": [], "format": "chatmemory/2"}', "it is written in chatmemory/2"),
        *(
            (f'{{"format": "chatmemory/1", "pins": {pins}, "messages": [{{"role": "user", "content": "Hi"}}]}}', "pin")
            for pins in ("7", "[7]", '[{"text": ""}]', '[{"text": "x", "message": 9}]', '[{"text": "x", "by": "me"}]')
        ),
    ],
)
def test_an_error_names_the_place(text: str, sentence: str) -> None:
    with pytest.raises(FormatError, match=sentence):
        read_chats(text)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"status": "streaming"}, "status: it should be 'complete'"),
        ({"role": "user", "status": "failed"}, "a message of user"),
        ({"role": "user", "reply_to": 1}, "reply_to: only replies answer"),
        ({"reply_to": 2}, "reply_to names message 2, which is not there or cannot be meant"),
        ({"superseded_by": 2}, "superseded_by: only another reply"),
        *(
            ({"role": "tool_call", "content": "b", "tool": tool}, "")
            for tool in (None, 7, {}, {"call_id": 1, "name": ""}, {"calls": "1"}, {"call_id": "c", "x": "y"})
        ),
        ({"seq": 1}, "seq 1 is there twice"),
        ({"usage": {"input_tokens": -1}}, "usage: input_tokens: it should be greater"),
        ({"usage": {"cost_usd": True}}, "usage: cost_usd: "),
        ({"model": "m" * 129}, "model: String should have at most 128 characters"),
    ],
)
def test_an_error_in_our_own_format_names_the_message(fields: dict[str, Any], sentence: str) -> None:
    second = {"role": "assistant", "content": "b", **fields}
    with pytest.raises(FormatError, match=f"conversation 1: message 2: .*{sentence}"):
        read_one({**OWN, "messages": [{"role": "user", "content": "a"}, second]})


def test_an_export_with_messages_taken_out_still_links() -> None:
    messages = [
        {"seq": 5, "role": "user", "content": "a"},
        {"seq": 7, "role": "assistant", "content": "b", "reply_to": 5, "superseded_by": 9},
        {"seq": 9, "role": "assistant", "content": "c", "reply_to": 5, "superseded_by": None},
    ]
    links = [(m.reply_to, m.superseded_by) for m in read_one({**OWN, "messages": messages}).messages]
    assert links == [(None, None), (1, 3), (1, None)]


clean = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | clean,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(clean, inner, max_size=3),
    max_leaves=8,
)


@given(st.text(st.characters(exclude_categories=[])) | json_values.map(json.dumps))
def test_any_text_is_read_or_refused_with_a_sentence(text: str) -> None:
    try:
        refusal = ""
        read_chats(text)
    except FormatError as exc:
        refusal = str(exc)
    assert refusal or text.strip()


WHOLE_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"x":1}'}}],
}
CUSTOM_CALL = {"id": "c1", "type": "custom", "custom": {"name": "find", "input": "x"}}


def test_calls_and_their_outputs_are_messages_where_both_are_whole() -> None:
    chat = openai(HELLO[0], WHOLE_CALL, RESULT, HELLO[1])
    assert texts(chat) == [
        SAID[0],
        ("assistant", ""),
        ("tool_call", 'Called find({"x":1})'),
        ("tool", "42"),
        SAID[1],
    ]
    assert [message.payload for message in chat.messages] == [
        None,
        {"calls": 1},
        {"call_id": "c1", "name": "find", "arguments": '{"x":1}'},
        {"call_id": "c1", "name": "find"},
        None,
    ]
    assert [message.reply_to for message in chat.messages] == [None, 1, None, None, 1]
    custom = openai(HELLO[0], {**WHOLE_CALL, "tool_calls": [CUSTOM_CALL]}, RESULT, HELLO[1])
    payload = {"call_id": "c1", "name": "find", "arguments": "x", "custom": True}
    assert custom.messages[2].payload == payload


def test_a_deleted_call_is_still_a_message() -> None:
    gone = {"role": "tool_call", "content": "", "status": "deleted"}
    assert texts(read_one({**OWN, "messages": [HELLO[0], gone]})) == [SAID[0], ("tool_call", "")]
