"""The app that connects the others. Listed last, so that it can unregister models that other apps put in the admin."""

from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.exceptions import NotRegistered
from django.core import checks

from chatmemory.database.startup import check_age

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
    # Nothing of ours is in them. What a provider is, the settings say.
    "account.EmailAddress",
    "socialaccount.SocialApp",
    "socialaccount.SocialToken",
    "allauth_idp_oidc.Client",
)


class ChatmemoryConfig(AppConfig):
    name = "chatmemory"

    def ready(self) -> None:
        checks.register(check_https, checks.Tags.security, deploy=True)
        checks.register(check_age, checks.Tags.database)
        admin.site.site_header = admin.site.site_title = "chatmemory"
        admin.site.index_title = "Chats and memory"
        for label in UNWANTED:
            try:
                admin.site.unregister(apps.get_model(label))
            except NotRegistered:
                continue  # that app registers the model only under some configurations


def check_https(app_configs: Any, **kwargs: Any) -> list[checks.CheckMessage]:
    """`check --deploy`: HTTPS is enforced. One setting switches on the redirect, HSTS and secure cookies.

    Django's own checks for that look for its middleware in the list, and are silenced in the settings.
    """
    if settings.SECURE_SSL_REDIRECT:
        return []
    warning = "Plain HTTP is answered: tokens, cookies and what people say can be read on their way."
    return [checks.Warning(warning, hint="Set DJANGO_SECURE_SSL_REDIRECT=true.", id="chatmemory.W001")]
