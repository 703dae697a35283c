"""A headless Chromium that opens pages and reports everything that went wrong there."""

import shutil
from collections.abc import Mapping
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
SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
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


def visit(context: Any, origin: str, path: str, served: Mapping[str, Any] | None = None) -> Visit:
    """Open a page and wait until everything that it does on loading has started.

    `origin` is the only server that it may contact; `served` is an answer to give instead of the server's.
    """
    seen, page = Visit(origin + path), context.new_page()
    listen(page, seen, origin)
    if served is not None:
        page.route(seen.url, lambda route: route.fulfill(**served))
    seen.status = page.goto(seen.url, wait_until="load" if served is None else "networkidle").status
    page.evaluate(SETTLED)
    seen.text = page.inner_text("body")
    seen.violations += page.evaluate("window.violations")
    seen.astray += [one for one in [page.url, *page.evaluate(LEADS)] if not one.startswith(f"{origin}/")]
    page.close()
    return seen


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
