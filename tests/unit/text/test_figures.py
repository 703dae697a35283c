"""Invented numbers and codes."""

import pytest

from chatmemory.text.figures import KnownFigures

SAID = """My order is QX-7719 for $12,500.50, from 14 May 2026. Call 555-123-4567 or ٠٦٢٨١.
It weighs 2 500 g, see RB40718 and https://shop.example/a/98123."""


@pytest.mark.parametrize(
    "text",
    [
        "Order QX7719, qx-7719: 12500.50, 12.500 or 12 500 dollars.",
        "Call 5551234567. It has 2500 g.",
        "code_rb_40718 of 2026-05-14, number 06281",
        "In 24h, the 3rd of 99 2-hour talks at 10am: 5 of 10.",
        "0" * 41 + " and A1" + "b1" * 20,
        "",
    ],
)
def test_figures_that_were_said_otherwise_are_known(text: str) -> None:
    assert KnownFigures([SAID]).new_in(text) == []


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("Order QX-7718 for $12,501.50", ["QX-7718", "12,501"]),
        ("of 2027, at 125 or １２６", ["2027", "125", "126"]),
        ("RB4071 and ZZ9", ["4071"]),
        ("call 555-123-4568", ["4568"]),
    ],
)
def test_figures_that_were_not_said_are_new(text: str, new: list[str]) -> None:
    assert KnownFigures([SAID]).new_in(text) == new


def test_figures_of_hostile_texts_take_linear_time() -> None:
    for piece in ("1", "1-", "a1-", "1,234", "a_"):
        KnownFigures([piece * 50_000]).new_in(piece * 50_000)
