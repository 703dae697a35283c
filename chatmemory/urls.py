"""All paths: of the APIs, the admin, the playground, probes and sign-in."""

from functools import partial

from django.conf import settings
from django.contrib import admin
from django.urls import include, path, re_path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

import chatmemory.api.openapi  # noqa: F401  # registers the OpenAPI extensions
from chatmemory.api.error_handler import error_page, no_such_page
from conversations.admin.accounts import change_password
from conversations.playground import landing, playground
from memory.admin.start_page import start
from memory.mcp.views import McpView
from memory.probes import HealthView, ReadyView, metrics

urlpatterns = [
    path("", landing, name="landing"),
    path("admin/", admin.site.admin_view(start), name="admin-overview"),
    path("admin/overview/", RedirectView.as_view(pattern_name="admin-overview", query_string=True)),
    path("admin/password_change/", admin.site.admin_view(change_password)),
    path("admin/", admin.site.urls),
    path("accounts/", include("conversations.sign_in.urls")),
    path("playground/", playground, name="playground"),
    path("healthz", HealthView.as_view()),
    path("readyz", ReadyView.as_view()),
    path("metrics", metrics),
    re_path(r"^mcp/?$", McpView.as_view(), name="mcp"),
    path("v1/schema", SpectacularAPIView.as_view(), name="schema"),
    path(
        "v1/docs",
        SpectacularSwaggerSplitView.as_view(url_name="schema", template_name="docs.html"),
        name="docs",
    ),
    path("v1/", include("conversations.api.urls")),
    path("v1/", include("conversations.openai_api.urls")),
    path("v1/", include("memory.api.urls")),
]
if settings.MCP_OAUTH:
    urlpatterns += [path("", include("conversations.sign_in.agents"))]

handler400 = partial(error_page, 400)
handler403 = partial(error_page, 403)
handler404 = no_such_page
handler500 = partial(error_page, 500)
