"""A headless Chromium that opens pages and reports everything that went wrong there.

Playwright's loop runs in a thread of its own, because Django's ORM refuses to work on a thread with a running loop.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PATH = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
OPTIONS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # no request leaves this machine, whatever a page does
)
HEAR_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", found => {
  window.violations.push(found.effectiveDirective + " refused " + (found.blockedURI || "something inline"));
});
"""
SETTLED = (
    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
)
"""Once this resolves, everything that a page does on loading has started."""
PATIENCE_MS = 30_000


@dataclass
class Visit:
    """What happened on a page. All lists are empty if it is as it should be."""

    url: str
    status: int = 0
    dialogs: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    astray: list[str] = field(default_factory=list)
    """Addresses of links, forms and the page itself that leave the origin or are invalid."""
    html: str = ""
    text: str = ""

    @property
    def troubles(self) -> list[str]:
        """All problems, as text."""
        kinds = {
            "dialog": self.dialogs,
            "request": self.foreign,
            "error": self.errors,
            "policy": self.violations,
            "astray": self.astray,
        }
        return [f"{self.url}: {kind}: {one}" for kind, found in kinds.items() for one in found]


class Chromium:
    """One browser with one user's cookies. `origin` is the only server that its pages may contact."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="chromium")
        self._playwright: Any = None
        self._browser: Any = None
        self._context: Any = None

    def __enter__(self) -> Chromium:
        self._thread.submit(self._start).result()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.submit(self._stop).result()
        self._thread.shutdown()

    def log_in(self, session: str) -> None:
        """Replace the session's cookie."""
        cookie = {"name": "sessionid", "value": session, "url": self.origin}
        self._thread.submit(self._with_cookie, cookie).result()

    def visit(
        self,
        path: str,
        act: Callable[[Any], None] | None = None,
        *,
        served: Mapping[str, Any] | None = None,
    ) -> Visit:
        """Open a page, then call `act` on it. `served` is an answer to give instead of the server's."""
        return self._thread.submit(self._visit, path, act, served).result()

    def _start(self) -> None:
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=PATH, args=OPTIONS)
        self._context = self._browser.new_context()
        self._context.add_init_script(HEAR_VIOLATIONS)

    def _stop(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def _with_cookie(self, cookie: dict[str, str]) -> None:
        self._context.clear_cookies()
        self._context.add_cookies([cookie])

    def _visit(self, path: str, act: Callable[[Any], None] | None, served: Mapping[str, Any] | None) -> Visit:
        seen = Visit(self.origin + path)
        with self._page(seen) as page:
            if served is not None:
                page.route(seen.url, lambda route: route.fulfill(**served))
            answer = page.goto(seen.url, wait_until="load", timeout=PATIENCE_MS)
            seen.status = answer.status
            if act is not None:
                act(page)
            page.evaluate(SETTLED)
            seen.html, seen.text = page.content(), page.inner_text("body")
            seen.violations += page.evaluate("window.violations")
            led = page.evaluate(LEADS)
            seen.astray += [one for one in [page.url, *led] if not one.startswith(f"{self.origin}/")]
        return seen

    @contextmanager
    def _page(self, seen: Visit) -> Iterator[Any]:
        page = self._context.new_page()
        listen(page, seen, self.origin)
        try:
            yield page
        finally:
            page.close()


def listen(page: Any, seen: Visit, origin: str) -> None:
    """Record in `seen` what goes wrong in `page`."""

    def dialog(shown: Any) -> None:
        seen.dialogs.append(shown.message)
        shown.dismiss()

    def request(sent: Any) -> None:
        if not sent.url.startswith((f"{origin}/", "data:")):
            seen.foreign.append(sent.url)

    def said(line: Any) -> None:
        if line.type == "error" and not line.location["url"].endswith("/favicon.ico"):  # there is none
            seen.errors.append(line.text)

    page.on("dialog", dialog)
    page.on("request", request)
    page.on("console", said)
    page.on("pageerror", lambda error: seen.errors.append(str(error)))


LEADS = """
() => [...document.querySelectorAll("[href], [src], [action], [formaction], object[data]")].flatMap(one =>
  ["href", "src", "action", "formaction", "data"].filter(name => one.hasAttribute(name))
    .map(name => one.getAttribute(name)).filter(given => !given.startsWith("#") && !given.startsWith("data:image/"))
    .map(given => { try { return new URL(given, location.origin + location.pathname).href } catch { return given } }))
"""
