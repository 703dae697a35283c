"""The app `conversations`: what follows when an account is saved is connected here."""

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_save, pre_save


class ConversationsConfig(AppConfig):
    name = "conversations"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from conversations.accounts import api_tokens

        user = settings.AUTH_USER_MODEL
        pre_save.connect(api_tokens.before_user_saved, sender=user, dispatch_uid="conversations.before_user_saved")
        post_save.connect(api_tokens.after_user_saved, sender=user, dispatch_uid="conversations.after_user_saved")
