"""The paths of the REST API of memory, search and exports."""

from django.urls import path

from memory.api.account_export import EndUserExportView, ExportView
from memory.api.person import EndUserMemoryView, MyMemoryView
from memory.api.search import SearchView, TraceView
from memory.api.views import BriefViews, ContextViews, PinViews, RevisionViews, SummarizeView, UsageView

chat = "chats/<uuid:chat_id>"
version = f"{chat}/revisions/<int:version>"

urlpatterns = [
    path("summarize", SummarizeView.as_view()),
    path("me/export", ExportView.as_view()),
    path("users/<path:end_user>/export", EndUserExportView.as_view()),
    path("me/memory", MyMemoryView.as_view()),
    path("users/<path:end_user>/memory", EndUserMemoryView.as_view()),
    path("search", SearchView.as_view()),
    path("usage", UsageView.as_view()),
    path(f"{chat}/brief", BriefViews.as_view({"get": "read"})),
    path(f"{chat}/brief/pause", BriefViews.as_view({"post": "pause"})),
    path(f"{chat}/brief/resume", BriefViews.as_view({"post": "resume"})),
    path(f"{chat}/brief/clear", BriefViews.as_view({"post": "clear"})),
    path(f"{chat}/estimate", BriefViews.as_view({"get": "estimate"})),
    path(f"{chat}/revisions", RevisionViews.as_view({"get": "page"})),
    path(version, RevisionViews.as_view({"get": "read"})),
    path(f"{version}/diff", RevisionViews.as_view({"get": "compare"})),
    path(f"{version}/restore", RevisionViews.as_view({"post": "restore"})),
    path(f"{chat}/resummarize", BriefViews.as_view({"post": "resummarize"})),
    path(f"{chat}/context", ContextViews.as_view({"post": "next_prompt"})),
    path(f"{chat}/trace", TraceView.as_view()),
    path(f"{chat}/pins", PinViews.as_view({"get": "page", "post": "pin"})),
    path(f"{chat}/pins/<uuid:pin_id>", PinViews.as_view({"patch": "change", "delete": "unpin"})),
    path(f"{chat}/messages/<uuid:message_id>/context", ContextViews.as_view({"get": "sent_prompt"})),
    path(f"{chat}/messages/<uuid:message_id>/sources", ContextViews.as_view({"get": "sources"})),
]
