"""Exports are read a conversation at a time, whatever is wrong with the file."""

import io
import json
import zipfile
from codecs import BOM_UTF8
from typing import Any

import pytest

from conversations.interchange import exports
from conversations.interchange.exports import Export, is_export
from conversations.interchange.values import FormatError
from tests.support.exports import chatgpt, claude, zipped

ONE, TWO = chatgpt("c1"), claude("c2")
BOTH = json.dumps([ONE, TWO]).encode()


def entries(body: bytes) -> list[Any]:
    """Return what is read: values, and why others are not."""
    export = Export(io.BytesIO(body))
    found = [str(value) if isinstance(value, FormatError) else value for _, value in export]
    assert export.position <= export.size
    return found


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (BOTH, [ONE, TWO]),
        (json.dumps(ONE).encode(), [ONE]),
        (b"\n".join(json.dumps(one).encode() for one in (ONE, TWO)), [ONE, TWO]),
        (zipped(conversations=[ONE, TWO], users=[{}]), [ONE, TWO]),
        (zipped(conversations_001=[TWO], conversations_000=[ONE]), [ONE, TWO]),
        (BOM_UTF8 + BOTH, [ONE, TWO]),
        (zipped(conversations="\ufeff" + BOTH.decode()), [ONE, TWO]),
        (b"[]", []),
    ],
)
def test_conversations_of_a_file(body: bytes, values: list[Any]) -> None:
    assert entries(body) == values
    assert is_export(io.BytesIO(body)) == bool(values)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_export_in_other_encoding_is_reported(encoding: str) -> None:
    body = BOTH.decode().encode(encoding)
    assert not is_export(io.BytesIO(body))
    assert entries(body) == ["its text is not UTF-8, but probably UTF-16: save it as UTF-8; the rest is not read"]


@pytest.mark.parametrize(
    "text",
    ["", "{", "7", "[1", "[{}]", '{"messages": []}', '[{"id": {"mapping": 1}}]', '["mapping"]', "\xff"],
)
def test_import_rejects_invalid_exports(text: str) -> None:
    assert not is_export(io.BytesIO(text.encode("latin-1")))


@pytest.mark.parametrize("broken", [b"[%s, {]", b"[%s, \xff", b"[%s", b'[%s, {"a": tru', b"[%s, " + b"9" * 5000])
def test_broken_json_ends_file_but_keeps_earlier_conversations(broken: bytes) -> None:
    value, why = entries(broken % json.dumps(ONE).encode())
    assert (value, why) == (ONE, "it is damaged, or not JSON; the rest is not read")


def test_a_broken_file_of_a_zip_leaves_the_next_one() -> None:
    read = entries(zipped(conversations_000="[{", conversations_001=[ONE]))
    assert read == ["it is damaged, or not JSON; the rest is not read", ONE]


def test_too_large_conversation_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_EVENTS", 50_000)
    texts = [chatgpt(str(n), moderation_results=[" " * 1000] * 20_000) for n in range(2)]
    values = chatgpt("many", moderation_results=[[]] * 100_000)
    read = entries(json.dumps([ONE, *texts, values, TWO]).encode())
    assert [one if isinstance(one, dict) else one.split(",")[0] for one in read] == [
        ONE,
        *["it has more than 16 MB"] * 3,
        TWO,
    ]


@pytest.mark.parametrize("endless", [b'["', b"[", b'[{"mapping": [{},', b'[{"mapping": "'])
def test_unterminated_conversation_ends_file(endless: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_SKIPPED_BYTES", 2_000_000)
    (why,) = entries(endless + b" " * exports.MAX_SKIPPED_BYTES + b" " * 100_000)
    assert why.endswith("500,000 values; the rest is not read")


def packed(name: str = "conversations.json", text: bytes = BOTH, kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        archive.writestr(name, text)
    return made.getvalue()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (packed("__MACOSX/conversations.json"), "no conversations.json"),
        (packed(kind=zipfile.ZIP_LZMA), "unusual way"),
        (packed(text=b" " * 50_000_000), "more than 200 times"),
        (packed()[:-1], "damaged"),
        (b"PK\x03\x04", "damaged"),
        (packed().replace(b"PK\x01\x02", b"PK\x01\x03"), "damaged"),
    ],
)
def test_a_zip_that_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        Export(io.BytesIO(body))


def test_a_zip_of_very_many_files_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_DIRECTORY_BYTES", 100)
    with pytest.raises(FormatError, match="too many files"):
        Export(io.BytesIO(zipped(conversations=[ONE])))


def test_a_zip_whose_data_is_damaged_ends_that_file() -> None:
    body = bytearray(packed(kind=zipfile.ZIP_STORED))
    body[60] ^= 1
    *_, last = entries(bytes(body))
    assert last == "it is damaged, or not JSON; the rest is not read"
