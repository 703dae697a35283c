"""The app that connects the others. Listed last, so that it can unregister models that other apps put in the admin."""

from __future__ import annotations

from django.apps import AppConfig, apps
from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered

from chatmemory import checks

UNWANTED = (
    # A schedule names any function to call, so anyone who may edit one runs code as the worker. The others show
    # pickled arguments, or put them back on the queue (pitfalls of django-q2, issue 121).
    "django_q.Schedule",
    "django_q.Success",
    "django_q.Failure",
    "django_q.Task",
    "django_q.OrmQ",
    # Its form creates a token for any user and shows it. Use `manage.py create_token`.
    "knox.AuthToken",
)


class ChatmemoryConfig(AppConfig):
    name = "chatmemory"

    def ready(self) -> None:
        checks.install()
        admin.site.site_header = admin.site.site_title = "chatmemory"
        admin.site.index_title = "Chats and memory"
        for label in UNWANTED:
            try:
                admin.site.unregister(apps.get_model(label))
            except NotRegistered:
                continue  # that app registers the model only under some configurations
