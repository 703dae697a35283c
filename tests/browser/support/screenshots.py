"""Screenshots of every page, on the server that `quickstart` starts: `make screenshots` writes docs/screenshots/.

Desktop and phone, light and dark. `python -m tests.browser.support.screenshots [NAME…]` takes only the pages named;
with the name `first-minute` it records the first minute as an animation: `make recording` writes docs/first-minute.gif.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from tests.browser.support.first_look import ROOT, FirstLook, Person, browser, manage, person, run, running
from tests.browser.support.playground import COMPLETE, come_in, enter

FOLDER = ROOT / "docs" / "screenshots"
COLOURS = 256
"""Enough colours for pages, with a third of the bytes."""
HIGHEST = 1700
"""Maximum height in pixels; a longer page is cut."""

RECORDING = "first-minute"

Act = Callable[[Person], None]


@dataclass(frozen=True)
class Picture:
    """A page, and what is done on it before the screenshot. `whole`: its full height, not only the window."""

    name: str
    path: Callable[[FirstLook, Facts], str]
    act: Act = lambda _: None
    whole: bool = True
    signed_in: bool = True


@dataclass(frozen=True)
class Facts:
    """Objects shown on the pages: the sample chat's last reply and its revisions, oldest first."""

    reply_id: str
    revision_ids: list[int]


QUESTIONS = (
    "When and where is our concert?",
    "What did we decide about the double bass?",
    "How much money is left, and what is it for?",
)


def prepare(look: FirstLook) -> Facts:
    """Prepare the state of all screenshots: ask the sample chat something and fold it, without edits."""
    for question in QUESTIONS:
        answer = look.api.post(
            "/v1/message", json={"chat_id": look.chat_id, "message": question, "stream": False}
        ).raise_for_status()
    run(look, "-m", "tests.browser.support.sample_days")
    manage(look, "resummarize", look.chat_id, "--sync")
    manage(look, "resummarize", look.chat_id, "--sync", "--rebuild")
    ids = manage(look, "shell", "-v", "0", "-c", _IDS.format(look.chat_id))
    return Facts(answer.json()["message"]["id"], [int(one) for one in ids.split()])


_IDS = """
from memory.models import SummaryRevision
print(*SummaryRevision.objects.filter(chat_id="{}").order_by("version").values_list("pk", flat=True))
"""


def settle(somebody: Person) -> None:
    somebody.page.wait_for_load_state("networkidle")


def ask_in_playground(somebody: Person) -> None:
    """Ask a question in the playground, so that it shows the chat with its memory."""
    come_in(somebody.page)
    settle(somebody)
    somebody.page.wait_for_timeout(500)


def show_memory(somebody: Person) -> None:
    """Ask in the playground, then open the memory's tab, if the page is so narrow that it has one."""
    ask_in_playground(somebody)
    tab = somebody.page.get_by_role("button", name="Memory").or_(somebody.page.get_by_role("tab", name="Memory"))
    if tab.count() and tab.first.is_visible():
        tab.first.click()
        somebody.page.wait_for_timeout(400)


CHAT = "/admin/conversations/chat"
BRIEF = "/admin/memory/conversationbrief"

PICTURES = (
    Picture(
        "playground",
        lambda look, _: f"/playground/#token={look.demo_token}&chat={look.chat_id}",
        ask_in_playground,
        whole=False,
        signed_in=False,
    ),
    Picture(
        "playground-memory",
        lambda look, _: f"/playground/#token={look.demo_token}&chat={look.chat_id}",
        show_memory,
        whole=False,
        signed_in=False,
    ),
    Picture("chats", lambda *_: f"{CHAT}/"),
    Picture("chat", lambda look, _: f"{CHAT}/{look.chat_id}/change/", settle),
    Picture("what-the-model-saw", lambda _, facts: f"/admin/memory/contextrecord/{facts.reply_id}/change/", settle),
    Picture("history", lambda look, _: f"{BRIEF}/{look.chat_id}/change/", settle),
    Picture("revision", lambda _, facts: f"/admin/memory/summaryrevision/{facts.revision_ids[1]}/change/", settle),
    Picture("overview", lambda *_: "/admin/", settle),
)


def take(chromium: Any, look: FirstLook, facts: Facts, names: set[str]) -> Iterator[str]:
    """Take the screenshots with these names, or all. Yields the file names as they are written."""
    for phone in (False, True):
        for dark in (False, True):
            suffix = f"{'phone' if phone else 'desktop'}-{'dark' if dark else 'light'}"
            for signed_in in (True, False):
                wanted = [one for one in PICTURES if one.signed_in == signed_in and (not names or one.name in names)]
                if not wanted:
                    continue
                with person(chromium, look, phone=phone, dark=dark) as somebody:
                    if signed_in:
                        somebody.sign_in()
                    for picture in wanted:
                        somebody.go(picture.path(look, facts))
                        picture.act(somebody)
                        file = FOLDER / f"{picture.name}-{suffix}.png"
                        _write(somebody.page.screenshot(full_page=picture.whole, animations="disabled"), file)
                        yield file.name
                        somebody.page.goto("about:blank")


def _write(png: bytes, file: Path) -> None:
    image = Image.open(io.BytesIO(png)).convert("RGB")
    cut = image.crop((0, 0, image.width, min(image.height, HIGHEST)))
    cut.quantize(COLOURS, dither=Image.Dither.NONE).save(file, optimize=True)


ANIMATION = ROOT / "docs" / "first-minute.gif"
MAX_BYTES = 2_000_000
WIDTH = 900
QUESTION = "When and where is our concert?"
TYPED = 6
"""Characters typed between two frames."""

Frame = tuple[Image.Image, int]
"""An image, and its duration in milliseconds."""


# The first minute as an animation


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
    return small.quantize(220, dither=Image.Dither.NONE)


def record(chromium: Any, look: FirstLook) -> None:
    """Write the animation: how little of a chat is sent, a question answered from months ago, and an update."""
    with person(chromium, look) as somebody:
        (first, shown), *others = frames(somebody, look)
    times = [shown, *(duration for _, duration in others)]
    images = [image for image, _ in others]
    first.save(ANIMATION, save_all=True, append_images=images, duration=times, loop=0, optimize=True)
    size = ANIMATION.stat().st_size
    print(f"{ANIMATION.relative_to(ROOT)}: {size:,} bytes, {sum(times) / 1000:.0f} s")
    if size > MAX_BYTES:
        raise SystemExit(f"That is over the limit of {MAX_BYTES:,} bytes.")


def main() -> None:
    names = set(sys.argv[1:])
    unknown = names - {one.name for one in PICTURES} - {RECORDING}
    if unknown:
        raise SystemExit(f"There is no picture named {', '.join(sorted(unknown))}.")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as look, browser() as chromium:
        if names == {RECORDING}:
            record(chromium, look)
        else:
            for name in take(chromium, look, prepare(look), names):
                print(name)


if __name__ == "__main__":
    main()
