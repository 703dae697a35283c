from django.urls import path

from memory.api import account_export, pins, search, views

chat = "chats/<uuid:chat_id>"

urlpatterns = [
    path("summarize", views.SummarizeView.as_view()),
    path("me/export", account_export.ExportView.as_view()),
    path("search", search.SearchView.as_view()),
    path("usage", views.UsageView.as_view()),
    path(f"{chat}/brief", views.BriefView.as_view()),
    path(f"{chat}/brief/pause", views.PauseView.as_view()),
    path(f"{chat}/brief/resume", views.ResumeView.as_view()),
    path(f"{chat}/brief/clear", views.ClearView.as_view()),
    path(f"{chat}/estimate", views.EstimateView.as_view()),
    path(f"{chat}/revisions", views.RevisionsView.as_view()),
    path(f"{chat}/revisions/<int:version>", views.RevisionView.as_view()),
    path(f"{chat}/revisions/<int:version>/diff", views.DifferenceView.as_view()),
    path(f"{chat}/revisions/<int:version>/restore", views.RestoreView.as_view()),
    path(f"{chat}/resummarize", views.ResummarizeView.as_view()),
    path(f"{chat}/context", views.ContextView.as_view()),
    path(f"{chat}/trace", search.TraceView.as_view()),
    path(f"{chat}/pins", pins.PinsView.as_view()),
    path(f"{chat}/pins/<uuid:pin_id>", pins.PinView.as_view()),
    path(f"{chat}/messages/<uuid:message_id>/context", views.PastContextView.as_view()),
]
