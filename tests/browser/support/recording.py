"""The first minute as an animation: `make recording` writes docs/first-minute.gif, on the server of `quickstart`.

The chat shows how little of it is sent, a question is answered from months ago, and an update changes the summary.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser.support.first_look import ROOT, FirstLook, Person, browser, person, running
from tests.browser.support.playground import COMPLETE, enter

FILE = ROOT / "docs" / "first-minute.gif"
MOST_BYTES = 2_000_000
WIDTH = 900
COLOURS = 220
QUESTION = "When and where is our concert?"
TYPED = 6
"""Characters typed between two frames."""

Frame = tuple[Image.Image, int]
"""An image, and its duration in milliseconds."""


def frames(somebody: Person, look: FirstLook) -> Iterator[Frame]:
    """Yield the frames, in order."""
    page = enter(somebody, look.chat_id)
    page.locator("#context-said-told", has_text="tokens said →").wait_for()
    yield picture(page), 2500
    for end in range(TYPED, len(QUESTION) + TYPED, TYPED):
        page.fill("#message", QUESTION[:end])
        yield picture(page), 180
    page.press("#message", "Enter")
    page.locator(".cm-reply:last-child .cm-body", has_text="Concert now").wait_for()
    yield picture(page), 500
    page.wait_for_selector(COMPLETE)
    page.get_by_role("heading", name="Prompt sent for message 98").wait_for()
    yield picture(page), 3500
    page.locator("#fold").scroll_into_view_if_needed()
    yield picture(page), 1500
    page.click("#fold")
    page.locator(".cm-landed").wait_for()
    page.locator("#summary ins").last.scroll_into_view_if_needed()
    yield picture(page), 5000


def picture(page: Any) -> Image.Image:
    """Return a screenshot of the window."""
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    small = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
    return small.quantize(COLOURS, dither=Image.Dither.NONE)


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Path(folder)) as look,
        browser() as chromium,
        person(chromium, look) as somebody,
    ):
        (first, shown), *others = frames(somebody, look)
        times = [shown, *(one for _, one in others)]
        pictures = [one for one, _ in others]
        first.save(FILE, save_all=True, append_images=pictures, duration=times, loop=0, optimize=True)
    size = FILE.stat().st_size
    print(f"{FILE.relative_to(ROOT)}: {size:,} bytes, {sum(times) / 1000:.0f} s")
    if size > MOST_BYTES:
        raise SystemExit(f"That is over the limit of {MOST_BYTES:,} bytes.")


if __name__ == "__main__":
    main()
