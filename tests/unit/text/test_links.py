"""Which links are the same and which are new."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chatmemory.text.links import KnownLinks, links_in
from tests.security.injection.corpus import LINKS, REWRITTEN, SAID

URLS = st.from_regex(r"https?://[a-z]{1,8}\.example(/[a-z0-9]{1,6}){0,3}(\?[a-z]=[0-9]{1,3})?", fullmatch=True)


@pytest.mark.parametrize("frame", ["{}", "See {} now.", "({})", "x\n{}\ny"])
def test_links_finds_invented_and_accepts_shortened(frame: str) -> None:
    known = KnownLinks([SAID])
    assert [link for link in LINKS if not known.new_in(frame.format(link))] == []
    assert [link for link in REWRITTEN if known.new_in(frame.format(link))] == []


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("See https://A.example/x?y=1.", {"a.example/x?y=1"}),
        ("a@b.example, c.example:8080/d", {"a@b.example", "c.example:8080/d"}),
        ("https://a.example/道の駅", {"a.example"}),
        ("https://例え.jp/道", {"例え.jp"}),
        ("rsync://a.example/x", {"rsync://a.example/x"}),
        ("[x](y.png)", {"](y.png"}),
    ],
)
def test_links_are_compared_in_one_form(text: str, links: set[str]) -> None:
    assert links_in(text) == links


def test_a_stop_without_its_space_makes_no_domain_of_two_words() -> None:
    assert not KnownLinks(["He left early. Net result: none."]).new_in("He left early.Net result: none.")
    assert KnownLinks(["He left."]).new_in("He left early.Net")


def test_a_link_cut_off_at_the_end_of_a_text_is_known_while_its_host_is_whole() -> None:
    known = KnownLinks(["https://bank.example/a/very/long/path?with=many&parts=%20x"])
    for cut in (
        "bank.example/a/ve",
        "https://bank.example/a/very/long/path?wi",
        "bank.example/a/very/long/path?with=many&parts=%2",
    ):
        assert not known.new_in(f"At {cut}")
    assert known.new_in("At https://bank.example/a/ve and more")
    assert known.new_in("At https://bank.exam/")


@given(URLS, st.sampled_from(["{}", "{}.", "({})", "<{}>", "[x]({})", "**{}**", "{}, and", "»{}«"]))
def test_a_link_that_was_said_is_never_new(url: str, frame: str) -> None:
    bare = url.partition("://")[2]
    for said in (
        url,
        url.upper() if "/" not in bare and "?" not in bare else url,
        f"www.{bare}",
        f"http://{bare}/",
    ):
        assert not KnownLinks([f"See {url} there"]).new_in(frame.format(said))


PIECES = st.sampled_from([*LINKS, *REWRITTEN, "道", "。", " ", ".", "](", "@", "://", "%2"])


@given(st.text() | st.lists(PIECES, max_size=6).map("".join), st.text())
def test_links_accepts_quoted_links(text: str, more: str) -> None:
    assert not KnownLinks([more, text]).new_in(text)
