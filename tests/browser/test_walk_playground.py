"""The playground as `quickstart` opens it, used by someone new to it. The built-in model answers."""

from __future__ import annotations

import re
from statistics import median
from typing import Any

import pytest

from tests.browser.support.corpus import CORPUS
from tests.browser.support.first_look import FirstLook, Person, person
from tests.browser.support.playground import COMPLETE, ask, enter, make_chat, newest, say

pytestmark = pytest.mark.browser
MOST_PAINT_MS = 1000
ACTIVE = (
    "#messages :is(script, img, iframe, style, link, form, base, meta, object, embed, video, svg[onload])"
)
PAINT = 'performance.getEntriesByName("first-contentful-paint")[0]?.startTime'


def test_from_the_printed_link_to_the_first_reply(visitor: Person, first_look: FirstLook) -> None:
    assert f"/playground/#token={first_look.demo_token}&chat={first_look.chat_id}" in first_look.screen
    page = enter(visitor, first_look.chat_id)
    assert first_look.demo_token not in page.url
    page.locator("#who", has_text="Signed in as demo").wait_for()
    assert page.inner_text("h1:visible") == "A journey to Ljubljana"
    page.wait_for_selector(".cm-piece.cm-kind-summary")
    assert visitor.axe() == []

    page.get_by_role("button", name="When and where is our concert?").click()
    page.locator(".cm-message:last-child .cm-body", has_text="10 July, 19:00").wait_for()
    page.wait_for_selector(COMPLETE)
    assert "Friday 10 July, 19:00" in newest(page)
    page.get_by_role("heading", name="Prompt sent for message 98").wait_for()
    assert visitor.axe() == []
    assert visitor.troubles() == []
    assert first_look.demo_token not in first_look.log()


def test_a_fold_lands_while_somebody_looks(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor, first_look.chat_id)
    ask(page, "Who plays the double bass?")
    page.click("#fold")
    landed = page.locator(".cm-landed")
    landed.wait_for()
    assert "merged into the summary" in landed.inner_text()
    assert page.locator("#announced").inner_text() == landed.inner_text()
    assert page.locator("#summary del").count() > 0
    assert page.locator("#summary .cm-diff").inner_text()
    page.locator("#summary").get_by_role("button", name="Show summary").click()
    assert page.locator("#summary ins, #summary del").count() == 0

    page.get_by_text("Earlier versions").click()
    page.get_by_role("button", name="Restore version 1").click()
    assert "newer messages are summarized again when due" in page.locator("#dialog-told").inner_text()
    assert page.get_by_label("Keep this version").is_checked()
    assert visitor.axe() == []
    page.get_by_role("button", name="Restore", exact=True).click()
    page.get_by_text("Restored from an older version").first.wait_for()
    page.get_by_text("current, updates paused").wait_for()
    assert "Updates are paused" in page.locator("#fold-told").inner_text()
    assert visitor.axe() == []
    page.click("#pause")
    page.get_by_role("button", name="Pause updates").wait_for()
    assert first_look.api.get(f"/v1/chats/{first_look.chat_id}/brief").json()["paused"] is None
    assert visitor.troubles() == []


def test_another_policy_is_asked_for_first_and_a_summary_cleared_and_put_back(
    visitor: Person, first_look: FirstLook
) -> None:
    page = enter(visitor, first_look.chat_id)
    path = f"/v1/chats/{first_look.chat_id}"
    page.select_option("#policy", "interval")
    told = page.locator("#dialog-told")
    told.wait_for()
    assert re.search(r"Rebuilds \d+ turns, about \d+ summarizer calls?\.", told.inner_text())
    assert "Manual edits are overwritten." in told.inner_text()
    assert visitor.axe() == []
    page.get_by_role("button", name="Cancel").click()
    assert page.locator("#policy").input_value() == "chunked"
    assert first_look.api.get(path).json()["policy"] == "chunked"

    before = first_look.api.get(f"{path}/brief").json()
    page.click("#clear")
    assert "can still be recalled" in told.inner_text()
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator(".cm-landed", has_text="Cleared.").wait_for()
    page.locator("#clear").wait_for(state="hidden")
    page.locator("#summary").get_by_role("button", name="Show summary").click()
    page.locator("#summary", has_text="The summary is empty.").wait_for()
    assert visitor.axe() == []
    page.get_by_text("Earlier versions").click()
    page.get_by_role("button", name=f"Restore version {before['version']}").click()
    page.get_by_role("button", name="Restore", exact=True).click()
    page.get_by_text("current, updates paused").wait_for()
    assert first_look.api.get(f"{path}/brief").json()["brief"] == before["brief"]

    page.select_option("#policy", "interval")
    page.get_by_role("button", name="Rebuild", exact=True).click()
    visitor.wait_for(lambda: first_look.api.get(f"{path}/brief").json()["policy"] == "interval")
    page.locator("#note", has_text="Rebuilding").wait_for(state="detached")
    page.locator("#summary", has_text="Replaced: made by another policy.").wait_for()
    headings = page.locator("#summary h4").all_inner_texts()
    assert [heading.partition(": ")[2] for heading in headings] == [
        "Periodic summary (interval)",
        "Rolling summary (chunked)",
    ]
    assert page.locator("#summary ins, #summary del").count() == 0
    assert visitor.troubles() == []


def test_notes_and_facts_are_lists_and_tables_not_what_the_model_reads(
    visitor: Person, first_look: FirstLook
) -> None:
    page = enter(visitor, first_look.chat_id)
    for policy, shape in (("card", "ul > li"), ("hierarchical", "dl dt")):
        page.select_option("#policy", policy)
        page.get_by_role("button", name="Rebuild", exact=True).click()
        page.locator("#note", has_text="Rebuilding").wait_for(state="detached")
        page.locator("#summary").get_by_role("button", name="Show summary").click()
        page.locator(f"#summary {shape}").first.wait_for()
        assert "{" not in page.inner_text("#summary")
        assert visitor.axe() == []
    assert page.evaluate("document.scrollingElement.scrollHeight === innerHeight"), "the page itself scrolls"
    assert visitor.troubles() == []


def test_a_new_chat_gets_its_policy_and_its_title(visitor: Person) -> None:
    page = enter(visitor)
    page.get_by_role("heading", name="Start chatting and watch the memory build").wait_for()
    assert visitor.axe() == []
    page.select_option("#policy", "interval")
    ask(page, "My order AB-1234 has not arrived.\nWhat now?")
    page.locator("#title", has_text="My order").wait_for()
    chat = visitor.look.api.get(f"/v1/chats/{page.url.rpartition('=')[2]}").json()
    assert (chat["title"], chat["policy"]) == ("My order AB-1234 has not arrived.", "interval")

    page.select_option("#policy", "card")
    path = f"/v1/chats/{chat['id']}"
    visitor.wait_for(lambda: visitor.look.api.get(path).json()["policy"] == "card")
    page.locator("#note", has_text="Rebuilding").wait_for(state="detached")
    assert visitor.look.api.get(f"/v1/chats/{chat['id']}").json()["policy"] == "card"
    page.click("#rename")
    page.fill("#dialog-field", "The order")
    page.press("#dialog-field", "Enter")
    page.get_by_role("button", name="The order").wait_for()
    page.click("#delete")
    assert visitor.axe() == []
    page.locator("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", name="New chat").wait_for()
    assert visitor.look.api.get(f"/v1/chats/{chat['id']}").status_code == 404


def test_the_next_fold_goes_by_the_options_of_the_chat(visitor: Person) -> None:
    api = visitor.look.api
    body = {"policy": "progressive", "options": {"threshold": 700}, "instructions": "Be brief."}
    chat_id = str(api.post("/v1/chats", json=body).json()["id"])
    page = enter(visitor)
    page.goto(f"{visitor.look.url}/playground/#chat={chat_id}")
    ask(page, "My locker is number 17.")
    told = page.locator("#pending-told")
    told.get_by_text("of 700 tokens (").wait_for()
    assert page.get_attribute("#pending", "max") == "700"
    unfolded = api.get(f"/v1/chats/{chat_id}/brief").json()["unfolded"]["tokens"]
    visitor.wait_for(lambda: int(page.get_attribute("#pending", "value") or 0) > unfolded)

    # Another client changes them in the meantime.
    api.patch(f"/v1/chats/{chat_id}", json={"options": {"threshold": 900}}).raise_for_status()
    ask(page, "My bike is green.")
    told.get_by_text("of 900 tokens").wait_for()
    assert visitor.troubles() == []


def test_a_message_is_edited_and_another_is_forgotten(visitor: Person) -> None:
    chat_id = make_chat(visitor, ("My locker is number 17.", ""), ("My bike is green.", ""))
    page = enter(visitor, chat_id)
    first = page.locator(".cm-user").first
    first.hover()
    first.get_by_role("button", name="Edit").click()
    assert visitor.axe() == []
    page.fill("#dialog-field", "My locker is number 71.")
    page.get_by_role("button", name="Save").click()
    page.locator(".cm-user .cm-body", has_text="number 71").wait_for()

    second = page.locator(".cm-user").nth(1)
    second.hover()
    second.get_by_role("button", name="Delete").click()
    page.keyboard.press("Escape")
    assert second.locator(".cm-gone").count() == 0
    second.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.locator(".cm-gone").wait_for()
    said = visitor.look.api.get(f"/v1/chats/{chat_id}/messages").json()["results"]
    assert [one["content"] for one in said if one["role"] == "user"] == ["My locker is number 71.", ""]
    assert visitor.troubles() == []


def test_a_token_or_a_name_lets_in_and_a_bad_one_is_told(visitor: Person) -> None:
    page = visitor.page
    visitor.go("/playground/")
    page.get_by_role("heading", name="Try the memory").wait_for()
    assert visitor.axe() == []
    page.fill("#token", "not-a-token")
    page.click("text=Use this token")
    page.get_by_text("This token is invalid or has expired").wait_for()
    page.fill("#username", "admin")
    page.fill("#password", visitor.look.admin_password)
    page.locator("#by-name button").click()
    page.get_by_role("button", name="New chat").wait_for()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("heading", name="Try the memory").wait_for()
    assert [one for one in visitor.troubles() if "401" not in one] == []


def test_staff_need_no_token(keeper: Person) -> None:
    keeper.go("/playground/")
    keeper.page.wait_for_selector('body[data-view="chat"] #variant option', state="attached")
    assert ask(keeper.page, "Is anybody there?")
    assert keeper.troubles() == []


def test_it_works_on_a_phone(walking: Any, first_look: FirstLook) -> None:
    with person(walking, first_look, phone=True, dark=True) as somebody:
        page = enter(somebody, first_look.chat_id)
        for shown in (".cm-brand", ".cm-tools-top a", ".cm-head .cm-pick span"):
            assert page.locator(shown).is_visible()
        ask(page, "What does the grant want?")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert somebody.axe() == []
        page.get_by_role("button", name="Memory", exact=True).click()
        page.locator("#sections .cm-section").first.wait_for()
        page.locator("#sections summary").first.click()
        assert page.locator("#sections .cm-sent").first.inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= 375
        assert somebody.axe() == []
        page.get_by_role("button", name="Chats", exact=True).click()
        page.locator(".cm-chat").first.click()
        page.locator("#message").wait_for()
        assert somebody.troubles() == []


def test_it_is_painted_soon_and_keeps_quiet(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor, first_look.chat_id)
    painted = []
    for _ in range(5):
        page.reload()
        page.wait_for_selector(".cm-message")
        painted.append(page.evaluate(PAINT))
    print(f"\nfirst contentful paint of the playground: {', '.join(f'{one:.0f}' for one in painted)} ms")
    assert median(painted) < MOST_PAINT_MS
    assert visitor.troubles() == []


def test_nothing_that_people_say_does_anything(visitor: Person) -> None:
    hostile = "\n\n".join(CORPUS)
    chat_id = make_chat(visitor, (hostile, ""), title=CORPUS[0])
    page = enter(visitor, chat_id)
    for one in (CORPUS[1], CORPUS[3], hostile):
        ask(page, one)
    for name in page.locator("#sections summary").all():
        name.click()
    page.mouse.move(500, 300)
    page.wait_for_timeout(300)
    assert page.locator(ACTIVE).count() == 0
    assert page.inner_text("h1:visible") == CORPUS[0]
    assert visitor.troubles() == []


def test_what_was_typed_stays_when_the_server_is_away(visitor: Person, first_look: FirstLook) -> None:
    page = enter(visitor, first_look.chat_id)
    refused = {
        "status": 429,
        "headers": {"Retry-After": "3"},
        "json": {"error": {"code": "rate_limited", "message": "Too many requests in this minute."}},
    }
    page.route("**/v1/chats/*/messages", lambda route: route.fulfill(**refused))
    say(page, "Is this kept?")
    page.get_by_text("Too many requests in this minute.").wait_for()
    page.get_by_text("Try again in").wait_for()
    assert page.input_value("#message") == "Is this kept?"
    page.get_by_text("You can send again.").wait_for()
    page.unroute("**/v1/chats/*/messages")
    page.context.set_offline(True)
    page.get_by_text("You are offline.").wait_for()
    page.context.set_offline(False)


def test_a_very_long_message_waits_to_be_asked_for(visitor: Person) -> None:
    longest = "x" * 200_000
    chat_id = make_chat(visitor, (longest, ""))
    page = enter(visitor, chat_id)
    body = page.locator(".cm-user .cm-body").first
    assert len(body.inner_text()) < 10_000
    page.get_by_role("button", name="Show all 200,000 characters").click()
    assert body.inner_text() == longest
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert visitor.troubles() == []


def test_a_summary_that_was_rolled_back_is_no_success(visitor: Person, first_look: FirstLook) -> None:
    """Every version of the sample chat's memory includes its first message."""
    page = enter(visitor, first_look.chat_id)
    page.locator("#summary-about", has_text="Version").wait_for()
    path = f"/v1/chats/{first_look.chat_id}/messages"
    first = first_look.api.get(f"{path}?limit=1").json()["results"][0]
    assert first_look.api.delete(f"{path}/{first['id']}").status_code == 204
    page.reload()
    page.get_by_text("Earlier versions").click()
    rolled = page.locator(".cm-version", has_text="Rolled back because a message was edited or deleted")
    rolled.get_by_role("button", name=re.compile("^Changes in version")).click()
    shown = page.locator("#summary .cm-rolled")
    shown.wait_for()
    assert page.locator("#summary ins, #summary del").count() == 0
    assert "the first version" not in page.locator("#summary").inner_text()
    assert visitor.axe() == []
