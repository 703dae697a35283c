"""Conversations of ChatGPT and Claude, however odd: what counts is read, and the rest is left out."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from conversations.interchange.read import read_service
from conversations.interchange.services import source_id
from conversations.interchange.values import FormatError
from tests.support.exports import NO_PARENT, Json, chatgpt, claude, claude_message, node

IMAGE = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://x"}


def texts(value: Json) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in read_service(value).messages]


def left_out(value: Json) -> dict[str, int]:
    return dict(read_service(value).left_out)


def test_a_conversation_of_chatgpt() -> None:
    chat = read_service(chatgpt("c1"))
    assert (chat.title, chat.metadata, chat.left_out) == ("Herons", {"source_id": "chatgpt:c1"}, {})
    assert chat.created_at == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    question, answer = chat.messages
    assert (question.role, question.content) == ("user", "What is c1?")
    assert (answer.reply_to, answer.model) == (1, "gpt-4o")
    assert answer.created_at == datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC)


def test_a_conversation_of_claude() -> None:
    chat = read_service(claude("c2"))
    assert (chat.title, chat.metadata) == ("Reeds", {"source_id": "claude:c2"})
    assert chat.left_out == {"thoughts": 2}
    assert chat.created_at == datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
    assert texts(claude("c2")) == [("user", "What is c2?"), ("assistant", "c2 it is.")]


def branched(current: Any) -> Json:
    nodes = [
        node("q", "root", "user", "Q"),
        node("a1", "q", "assistant", "first"),
        node("a2", "q", "assistant", "second"),
    ]
    return chatgpt("c", *nodes, current=current)


@pytest.mark.parametrize(("current", "answer"), [("a1", "first"), ("a2", "second"), ([1], "second")])
def test_chatgpt_branch_shown_last_is_imported(current: Any, answer: str) -> None:
    assert texts(branched(current)) == [("user", "Q"), ("assistant", answer)]
    assert left_out(branched(current)) == {"branch_messages": 1}


@pytest.mark.parametrize("current", ["gone", None, 7])
def test_unknown_current_node_means_the_newest_leaf(current: Any) -> None:
    nodes = [
        node("a2", "q", "assistant", "newest", create_time=1700000003),
        node("q", "root", "user", "Q"),
        node("a1", "q", "assistant", "older", create_time=1700000002),
    ]
    value = chatgpt("c", *nodes) | {"current_node": current}
    assert texts(value) == [("user", "Q"), ("assistant", "newest")]


@pytest.mark.parametrize("current", ["r", "gone"])
def test_tree_whose_nodes_name_only_children_is_read_whole(current: str) -> None:
    nodes = [node("q", None, "user", "Q"), node("a", None, "assistant", "A"), node("r", None, "user", "R")]
    value = chatgpt("c", *nodes, current=current)
    for name, child in (("root", "q"), ("q", "a"), ("a", "r")):
        value["mapping"][name] = {"message": value["mapping"][name]["message"], "children": [child, 7]}
    assert texts(value) == [("user", "Q"), ("assistant", "A"), ("user", "R")]


@pytest.mark.parametrize(("leaf", "answer"), [("b", "first"), (None, "second")])
def test_claude_has_branches_too(leaf: str | None, answer: str) -> None:
    messages = [
        claude_message("human", "Q", uuid="a", parent_message_uuid=NO_PARENT),
        claude_message("assistant", "first", uuid="b", parent_message_uuid="a"),
        claude_message("assistant", "second", uuid="c", parent_message_uuid="a"),
    ]
    value = claude("c", *messages, current_leaf_message_uuid=leaf)
    assert texts(value) == [("user", "Q"), ("assistant", answer)]
    assert left_out(value) == {"thoughts": 2, "branch_messages": 1}


def test_hidden_thoughts_and_tool_calls_are_no_text() -> None:
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
    assert texts(chatgpt("c", *nodes)) == [("user", "Q"), ("assistant", "See  it.")]
    assert left_out(chatgpt("c", *nodes)) == {
        "system_messages": 3,
        "thoughts": 1,
        "tool_messages": 2,
        "empty_messages": 1,
    }


def test_marks_of_chatgpt_leave_their_words() -> None:
    marks = {
        'entity\ue202["company","Heron Ltd","rents boats"]': "Heron Ltd",
        "url\ue202the reeds\ue202https://a.example/": "the reeds https://a.example/",
        "filecite\ue202turn0file0\ue202L1-L2": "",
        'image_group\ue202{"query":["heron"]}': "",
        "entity\ue202broken": "broken",
    }
    for mark, words in marks.items():
        [(_, text)] = texts(chatgpt("c", node("a", "root", "assistant", f"See \ue200{mark}\ue201.")))
        assert text == f"See {words}."


@pytest.mark.parametrize(
    ("role", "kind", "of"),
    [
        ("assistant", "reasoning_recap", "thoughts"),
        ("user", "model_editable_context", "system_messages"),
        ("tool", "tether_quote", "tool_messages"),
        ("assistant", "tether_browsing_display", "tool_messages"),
        ("tool", "sonic_webpage", "tool_messages"),
        ("assistant", "app_pairing_content", "others"),
        (None, "text", "others"),
    ],
)
def test_messages_of_chatgpt_without_text_of_a_side_are_counted_by_kind(role: Any, kind: str, of: str) -> None:
    assert left_out(chatgpt("c", node("n", "root", role, "x", kind=kind))) == {of: 1}


def test_parts_of_claude_without_text_of_a_side_are_counted_by_kind() -> None:
    kinds = ["thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use", "image", "flag"]
    blocks: list[Json] = [{"type": kind, "thinking": "Hm.", "name": "web_search"} for kind in kinds]
    spoken = [{"type": "voice_note", "text": "spoken"}, {"type": "voice_note", "transcript": "more"}]
    blocks += [*spoken, {"type": "tool_result", "text": "1"}]
    value = claude("c", {"sender": "assistant", "text": "placeholder", "content": blocks}, {"sender": "x"})
    assert texts(value) == [("assistant", "spoken\n\nmore\n\n[image]")]
    assert left_out(value) == {"thoughts": 2, "tool_messages": 4, "images": 1, "others": 2}


def canvas(recipient: str, **call: Any) -> Json:
    made = node("d", "q", "assistant", recipient=f"canmore.{recipient}_textdoc")
    text = json.dumps(call) if call else "{broken"
    made["message"]["content"] = {"content_type": "code", "text": text}
    asked, done = node("q", "root", "user", "Q"), node("t", "d", "tool", "Successfully created.")
    return chatgpt("c", asked, made, done, node("a", "t", "assistant", "Here it is."))


POND = "Still water, green frog."


@pytest.mark.parametrize(
    ("value", "document"),
    [
        (canvas("create", name="pond", type="document", content=POND), f"pond\n\n{POND}"),
        (canvas("update", updates=[{"pattern": ".*", "multiple": True, "replacement": POND}]), POND),
        (canvas("comment", comments=[{"pattern": "frog", "comment": POND}]), POND),
    ],
)
def test_canvas_is_a_text_of_the_assistant_if_it_can_be_read(value: Json, document: str) -> None:
    assert texts(value) == [("user", "Q"), ("assistant", document), ("assistant", "Here it is.")]
    assert left_out(value) == {"tool_messages": 1}
    assert texts(canvas("update")) == [("user", "Q"), ("assistant", "Here it is.")]
    assert left_out(canvas("update")) == {"tool_messages": 2}, "that one cannot be read"


@pytest.mark.parametrize(
    ("call", "document"),
    [
        ({"command": "create", "title": "Pond", "type": "text/markdown", "content": POND}, f"Pond\n\n{POND}"),
        ({"command": "rewrite", "title": "Pond", "content": POND}, f"Pond\n\n{POND}"),
        ({"command": "update", "id": "pond", "old_str": "toad", "new_str": POND}, POND),
    ],
)
def test_artifact_is_a_text_of_the_assistant_in_its_place(call: Json, document: str) -> None:
    blocks = [
        {"type": "text", "text": "I write."},
        {"type": "tool_use", "name": "artifacts", "input": call},
        {"type": "tool_result", "name": "artifacts", "content": [{"type": "text", "text": "OK"}]},
        {"type": "text", "text": "Here it is."},
    ]
    value = claude("c", {"sender": "assistant", "text": "", "content": blocks})
    assert texts(value) == [("assistant", f"I write.\n\n{document}\n\nHere it is.")]
    assert left_out(value) == {"tool_messages": 1}


@pytest.mark.parametrize(("path", "is_shown"), [("/mnt/user-data/outputs/a.md", True), ("/home/claude/a.py", False)])
def test_file_that_claude_wrote_for_the_user_is_a_text(path: str, is_shown: bool) -> None:
    call = {"type": "tool_use", "name": "create_file", "input": {"path": path, "file_text": POND}}
    value = claude("c", {"sender": "assistant", "content": [call, {"type": "text", "text": "Done."}]})
    assert texts(value) == [("assistant", f"{POND}\n\nDone." if is_shown else "Done.")]
    assert left_out(value) == ({} if is_shown else {"tool_messages": 1})


def test_files_have_marks_with_their_names_unless_their_text_is_there() -> None:
    files = {"attachments": [{"file_name": "plan.docx"}], "files": [{"file_name": "pond.pdf"}]}
    message = {"sender": "human", "text": "", "content": [], **files}
    assert texts(claude("c", message)) == [("user", "[file: plan.docx] [file: pond.pdf]")]
    assert left_out(claude("c", message)) == {"files": 2}
    attached = [{"name": "plan.docx", "mime_type": "application/msword"}, {"name": "a\nb"}]
    value = chatgpt("c", node("q", "root", "user", "", metadata={"attachments": attached}))
    assert texts(value) == [("user", "[file: plan.docx] [file: a b]")]
    assert left_out(value) == {"files": 2}
    with_text = {"attachments": [{"file_name": "plan.txt", "extracted_content": "A long text."}]}
    message = {"sender": "human", "text": "Read.", "files": [{"file_name": "plan.txt"}], **with_text}
    assert texts(claude("c", message)) == [("user", "Read.\n\nA long text.")]
    assert left_out(claude("c", message)) == {}


def test_recording_without_its_words_has_a_mark() -> None:
    sound = {"content_type": "real_time_user_audio_video_asset_pointer"}
    value = chatgpt("c", node("q", "root", "user", sound, kind="multimodal_text"))
    assert texts(value) == [("user", "[recording]")]
    assert left_out(value) == {"recordings": 1}


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
    assert left_out(chatgpt("c", *nodes)) == {"images": 3}
    assert texts(chatgpt("c", *nodes)) == [("user", "Both?\n\n[image]\n\n[image]"), ("user", "spoken")]
    files = [{"file_name": "a.PNG"}, {"file_kind": "image", "file_name": "b"}, {"file_name": "c.pdf"}]
    pasted = [{"file_name": "", "extracted_content": "A long text."}]
    message = {**claude_message("human", ""), "content": [], "files": files, "attachments": pasted}
    assert left_out(claude("c", message)) == {"images": 2, "files": 1}
    assert texts(claude("c", message)) == [("user", "A long text.\n\n[file: c.pdf]\n\n[image]\n\n[image]")]
    attached = [{"name": "a.png", "mime_type": "image/png"}]
    for parts in ([IMAGE], []):  # with a pointer and without
        value = chatgpt("c", node("q", "root", "user", *parts, metadata={"attachments": attached}))
        assert (texts(value), left_out(value)) == ([("user", "[image]")], {"images": 1})


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
    (
        claude("c", {}, {"sender": "human"}, {"sender": "someone", "text": "?"}, claude_message("human", "Q")),
        ["Q"],
    ),
    ({"uuid": "c", "chat_messages": [7, None]}, []),
    (claude("c", claude_message("human", "Q", created_at="0001-01-01T00:00:00+14:00"), name=7), ["Q"]),
    ({"uuid": "c", "chat_messages": []}, []),
    (claude("c", claude_message("human", "Q"), mapping=7), ["Q"]),
]


@pytest.mark.parametrize(("value", "expected"), ODD)
def test_odd_messages_are_left_out(value: Json, expected: list[str]) -> None:
    assert [text for _, text in texts(value)] == expected


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"mapping": {}, "conversation_id": "a", "id": "b"}, "chatgpt:a"),
        ({"mapping": {}, "id": "b\0"}, "chatgpt:b"),
        ({"mapping": {"n1": {}, "n2": {}}}, "chatgpt:n1"),
        ({"chat_messages": [], "uuid": "u"}, "claude:u"),
        ({"mapping": {}}, None),
        ({"mapping": [], "id": "a"}, None),
        ({"mapping": {"1": {"message": {"fragments": [{"type": "REQUEST", "content": "Hi"}]}}}}, None),  # DeepSeek
        ({"chat_messages": []}, None),
        ({"messages": []}, None),
        (None, None),
        (["mapping"], None),
    ],
)
def test_claude_id_is_stable_across_exports(value: Any, name: str | None) -> None:
    if name is None:
        with pytest.raises(FormatError, match="not a conversation of"):
            source_id(value)
    else:
        assert source_id(value) == name
