from django.urls import path

from conversations import account_views, doors, views

chat = "chats/<uuid:chat_id>"
message = f"{chat}/messages/<uuid:message_id>"

urlpatterns = [
    path("auth/token", views.TokenView.as_view()),
    path("message/first", doors.FirstMessageDoor.as_view()),
    path("message", doors.MessageDoor.as_view()),
    path("chats", views.ChatsView.as_view()),
    path(chat, views.ChatView.as_view()),
    path(f"{chat}/messages", doors.ChatMessagesDoor.as_view()),
    path(message, views.MessageView.as_view()),
    path(f"{message}/cancel", doors.CancelDoor.as_view()),
    path(f"{message}/regenerate", doors.RegenerateDoor.as_view()),
    path(f"{message}/stream", doors.StreamDoor.as_view()),
    path("ask", doors.AskDoor.as_view()),
    path("me", account_views.MeView.as_view()),
    path("models", views.ModelsView.as_view()),
]
