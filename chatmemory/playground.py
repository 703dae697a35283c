"""The first page, and the playground: one page that talks to the public API as any client does. Neither holds data.

Who gets the page is the setting `PLAYGROUND`. What it shows, the API gives to whoever its token or session names; this
module knows neither chats nor messages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from memory.explain.reasons import SECTION_NAMES
from memory.policies import POLICIES, Policy
from memory.policies.options import bounds_for

SCRIPTS = Path(__file__).parent / "static" / "chatmemory" / "playground"
MODULES = [
    f"chatmemory/playground/{path.relative_to(SCRIPTS).as_posix()}"
    for path in sorted(SCRIPTS.rglob("*.js"))
    if path.name != "theme.js"
]
"""All of them at once: the browser needs not read one to learn of the next."""


SECTIONS = {
    **{kind: (name, "") for kind, name in SECTION_NAMES.items()},
    "pins": ("Pins", "always in the prompt until removed"),
    "summary": ("Summary", "older messages in a few sentences"),
    "data": ("Key data", "details that must not get lost"),
    "narrative": ("Story", "how the conversation went so far"),
    "facts": ("Facts", "what is known, by name"),
    "card": ("Notes", "written by the model with its last reply"),
    "outline": ("Outline", "the last reply in a few words"),
    "lines": ("One-line summaries", "messages that didn't fit in full"),
    "window": ("Recent messages", "full text"),
    "recall": ("Recalled", "earlier messages that match your question"),
    "instructions": ("Instructions", "the system prompt of this chat"),
    "sources": ("Sources", "material that came with the question"),
    "question": ("Question", "your message"),
}
"""What the sections of a prompt are called beside a chat, and what each is."""


class Way(NamedTuple):
    """A way to remember, as people choose it."""

    name: str
    label: str
    told: str
    has_threshold: bool
    """A chat can choose from how many tokens on its memory is updated."""


@require_safe
def landing(request: HttpRequest) -> HttpResponse:
    """The page at `/`: what this is, and the ways on."""
    return render(request, "landing.html", {"has_playground": settings.PLAYGROUND != "off"})


@require_safe
def playground(request: HttpRequest) -> HttpResponse:
    """The page, or the way to it: the admin's login where it is for staff, 404 where it is off."""
    mode, user = settings.PLAYGROUND, getattr(request, "user", AnonymousUser())
    if mode == "off":
        raise Http404
    if mode == "staff" and not (user.is_active and user.is_staff):
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    context = {
        "csrf": get_token(request) if user.is_authenticated else "",
        "modules": MODULES,
        "ways": ways(),
        "default_policy": settings.MEMORY_POLICY,
        "section_names": json.dumps(SECTIONS),
    }
    answer = render(request, "playground.html", context)
    answer["Cache-Control"] = "no-store"
    return answer


def ways() -> list[Way]:
    """All policies, the default first, as people read them."""
    names = sorted(POLICIES, key=lambda name: (name != settings.MEMORY_POLICY, name))
    return [_way(POLICIES[name]) for name in names]


def _way(policy: Policy) -> Way:
    can_choose = settings.MEMORY_LIMITS.enabled and "threshold" in bounds_for(policy)
    return Way(policy.name, policy.label or policy.name.capitalize(), policy.description, can_choose)
