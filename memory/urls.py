from django.urls import path

from memory import doors, pin_views, search_views, views

chat = "chats/<uuid:chat_id>"

urlpatterns = [
    path("summarize", doors.SummarizeDoor.as_view()),
    path("me/export", doors.ExportDoor.as_view()),
    path("search", search_views.SearchView.as_view()),
    path("usage", views.UsageView.as_view()),
    path(f"{chat}/brief", views.BriefView.as_view()),
    path(f"{chat}/revisions", views.RevisionsView.as_view()),
    path(f"{chat}/revisions/<int:version>", views.RevisionView.as_view()),
    path(f"{chat}/revisions/<int:version>/diff", views.DifferenceView.as_view()),
    path(f"{chat}/revisions/<int:version>/restore", views.RestoreView.as_view()),
    path(f"{chat}/resummarize", views.ResummarizeView.as_view()),
    path(f"{chat}/context", views.ContextView.as_view()),
    path(f"{chat}/pins", pin_views.PinsView.as_view()),
    path(f"{chat}/pins/<uuid:pin_id>", pin_views.PinView.as_view()),
    path(f"{chat}/messages/<uuid:message_id>/context", views.PastContextView.as_view()),
]
