"""The landing page, and the playground: a page that uses the public API like any client. Neither holds data.

The setting `PLAYGROUND` says who may open it. Its data comes from the API, for the user of its token or session; this
module knows neither chats nor messages.
"""

import json
import re

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from memory.explain.reasons import SECTIONS
from memory.policies import POLICIES
from memory.policies.protocol import bounds_for

ON_DEMAND = re.compile(r"vendor/speed-highlight/|code-worker\.js|theme\.js")
"""Scripts that are not modules of the page: its theme, and scripts that a worker loads when there is code to show."""
SCRIPTS = settings.PACKAGE_DIR / "static" / "chatmemory" / "playground"
MODULES = [
    f"chatmemory/playground/{path.relative_to(SCRIPTS).as_posix()}"
    for path in sorted(SCRIPTS.rglob("*.js"))
    if not ON_DEMAND.match(path.relative_to(SCRIPTS).as_posix())
]
"""All other scripts, which the browser loads at once, without reading one to find the next."""


@require_safe
def landing(request: HttpRequest) -> HttpResponse:
    """The landing page at `/`: what this is, and where to go next."""
    return render(request, "landing.html", {"has_playground": settings.PLAYGROUND != "off"})


@require_safe
def playground(request: HttpRequest) -> HttpResponse:
    """The playground; or a redirect to the admin's login if it is for staff, 404 if it is off."""
    mode, user = settings.PLAYGROUND, getattr(request, "user", AnonymousUser())
    if mode == "off":
        raise Http404
    if mode == "staff" and not (user.is_active and user.is_staff):
        return redirect_to_login(request.get_full_path(), reverse("admin:login"))
    policies = sorted(POLICIES.values(), key=lambda policy: (policy.name != settings.MEMORY_POLICY, policy.name))
    context = {
        "csrf": get_token(request) if user.is_authenticated else "",
        "modules": MODULES,
        "policies": policies,
        "with_threshold": [
            policy.name for policy in policies if settings.MEMORY_ENABLED and "threshold" in bounds_for(policy)
        ],
        "default_policy": settings.MEMORY_POLICY,
        "temporary_hours": settings.TEMPORARY_CHAT_HOURS,
        "section_names": json.dumps(SECTIONS),
        "printed_link": settings.PRINTED_TOKEN_SHA256,
    }
    answer = render(request, "playground.html", context)
    answer["Cache-Control"] = "no-store"
    return answer
