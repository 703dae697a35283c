"""Images and files as values: their marks, their cost in tokens, and how they are told apart."""

import base64
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.llm.attachments import (
    IMAGE_TYPES,
    PIECE_BYTES,
    Attachment,
    attachments_in,
    file_of,
    image_of,
    json_parts,
    payload_of,
    read_data_url,
    still_marked,
)
from tests.support.images import data_url, png


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [(1024, 1024, 765), (2048, 4096, 1105), (512, 512, 255), (1, 1, 255), (640, 480, 425)],
)
def test_image_costs_openais_tokens(width: int, height: int, tokens: int) -> None:
    """The first two are examples from OpenAI's guide."""
    assert Attachment("image", width=width, height=height).tokens == tokens


def test_an_image_is_known_by_its_bytes() -> None:
    image = image_of(png(640, 480))
    assert image is not None
    assert (image.width, image.height, image.tokens) == (640, 480, 425)
    assert image.mark == f"[image: 640×480 PNG, {len(png(640, 480))} B]"
    assert Attachment("image", detail="low", width=640, height=480).tokens == 85


@given(data=st.binary(max_size=300), media_type=st.sampled_from(sorted(IMAGE_TYPES)))
def test_no_bytes_break_it(data: bytes, media_type: str) -> None:
    heads = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF89a"}
    head = heads.get(media_type, b"RIFF\0\0\0\0WEBP")
    image = image_of(head + data)
    assert image is not None
    assert image.media_type == media_type
    assert image.tokens > 0


def test_files_say_their_name_and_size() -> None:
    report = file_of(b"x" * 120_400, "application/pdf", "report.pdf")
    assert report.mark == "[file: report.pdf, 120 kB]"
    assert file_of(b"x" * 2_500_000, "application/pdf", "").mark == "[file: without a name, 2.5 MB]"
    assert file_of(b"x" * 400, "text/plain", "a.txt").tokens == 100


def test_the_payload_has_all_but_the_bytes() -> None:
    image = image_of(png(), "high")
    link = Attachment("image", url="https://example.com/cat.png")
    assert image is not None
    payload = payload_of([image, link])
    assert attachments_in(payload) == (image, link)
    assert attachments_in(payload)[0].data is None
    assert payload_of([]) is None
    assert attachments_in(None) == ()
    assert attachments_in({"calls": 2}) == ()


def test_links_stand_for_themselves_and_bytes_for_theirs() -> None:
    image = image_of(png())
    assert image is not None
    assert image.link is image
    assert "".join(
        one.data_url_head + base64.b64encode(one.data or b"").decode() if isinstance(one, Attachment) else one
        for one in json_parts({"url": image.link})
    ) == json.dumps({"url": data_url(png())})
    assert attachments_in(payload_of([image]))[0].link == f"sha256:{image.sha256}"
    assert Attachment("image", url="https://example.com/cat.png").link == "https://example.com/cat.png"


def test_a_jpeg_without_a_frame_is_not_read_to_its_end() -> None:
    began = time.process_time()
    image = image_of(b"\xff\xd8\xff" + b"\xff\xd0" * 10**7)
    assert time.process_time() - began < 0.5
    assert image is not None
    assert image.width == 0


@given(data=st.binary(max_size=50), large=st.booleans())
def test_a_data_url_is_read_in_slices_as_it_would_be_in_one(data: bytes, large: bool) -> None:
    data = data + b"x" * PIECE_BYTES if large else data
    url = data_url(data)
    assert read_data_url(url) == ("image/png", data)
    padded = data_url(data + b"=" * ((1 - len(data)) % 3))
    assert read_data_url(f"{padded}AAAA") is None  # padding is only at the end


@pytest.mark.parametrize("more", [";charset=utf-8", ";name=a b.png;charset=UTF-8"])
def test_parameters_of_a_data_url_are_left_out(more: str) -> None:
    assert read_data_url(data_url(b"abc", f"image/png{more}")) == ("image/png", b"abc")


@pytest.mark.parametrize("url", ["", "data:image/png,abc", "data:image/png;base64,a", "https://example.com"])
def test_parse_data_url_rejects_others(url: str) -> None:
    assert read_data_url(url) is None
    assert read_data_url(data_url(b"abc")) == ("image/png", b"abc")


def test_edit_detaches_removed_attachment() -> None:
    one, two = (image_of(png(colour=shade)) for shade in (1, 2))
    assert one is not None
    assert two is not None
    assert one.mark == two.mark  # the first mark belongs to the first file
    assert still_marked([one, two], f"{one.mark} and {two.mark}") == (one, two)
    assert still_marked([one, two], f"only {one.mark}") == (one,)
    assert still_marked([one, two], "nothing") == ()
