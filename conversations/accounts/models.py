"""Apps, their end users, tokens, and what accounts use of their limits."""

from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator
from django.db import models
from django.db.models.functions import Now

from chatmemory.database.owned import Owned

MAX_RETAIN_DAYS = 36_500


class App(models.Model):
    """An application whose account acts for users of its own, each of whom is an `EndUser`."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="app"
    )
    retain_days = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MaxValueValidator(MAX_RETAIN_DAYS)],
        help_text="Days after its last message at which a chat is erased; 0 for never, empty for those of the server.",
    )
    requires_end_user = models.BooleanField(
        "must name end users",
        default=True,
        db_default=False,
        help_text="Requests about chats that name no end user are refused. Otherwise they share the app's own account.",
    )
    across = models.CharField(
        "memory across chats",
        max_length=4,
        choices=[("", "as the server is set"), ("off", "off"), ("pins", "pins"), ("all", "all")],
        blank=True,
        default="",
        db_default="",
        help_text="What the chats of one end user share, unless that is set for the end user.",
    )
    created_at = models.DateTimeField(db_default=Now())
    webhook_url = models.CharField(max_length=2000, blank=True, default="", db_default="")
    """Where events are sent; "" for nowhere. Set by `api.webhook`, as the next two."""
    webhook_events = models.CharField(max_length=200, blank=True, default="", db_default="")
    """The `WebhookEventType`s that it wants, with spaces between."""
    webhook_secret = models.CharField(max_length=100, blank=True, default="", db_default="", editable=False)
    """Signs them, so it is kept as it is; shown once, when it is made."""

    def __str__(self) -> str:
        return self.user.get_username()


class EndUser(models.Model):
    """A person who uses an app: an account of their own, made when the app first names them, which cannot sign in."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="end_user"
    )
    app = models.ForeignKey(App, on_delete=models.CASCADE, related_name="end_users", db_index=False)
    external_id = models.CharField("id in the app", max_length=200)
    """The app's id of the person."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["app", "external_id"], name="end_user_once_an_app")]

    def __str__(self) -> str:
        return self.external_id


class Scope(models.TextChoices):
    """The permissions of a token's bearer."""

    CHAT = "chat", "read and write chats"
    ACT_FOR_USERS = "act-for-users", "the same for the app's end users"
    READ_ONLY = "read-only", "read only"
    REMEMBER_NAMED = "remember-named", "remember named conversations, even with store: false"
    """Beside `CHAT` or `ACT_FOR_USERS`, not with `READ_ONLY`."""


TOKEN_NAME_CHARS = 100


class TokenGrant(models.Model):
    """The name and the scopes of an API token. One without a grant has no name, and the scope `chat`."""

    token = models.OneToOneField("knox.AuthToken", on_delete=models.CASCADE, primary_key=True, related_name="grant")
    name = models.CharField(max_length=TOKEN_NAME_CHARS, blank=True)
    scopes = models.JSONField(default=list)

    class Meta:
        default_permissions = ()  # it is shown with its token


class Allowance(Owned):
    """A user's own limits, where they differ from the settings, and the use by the user's calls.

    Created with the user's first call. Reserving and settling lock this row, so that its numbers are exact. `limits`
    defines their meaning; only `quotas` writes the usage.
    """

    OWNER = "user_id"

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="allowance"
    )
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_day = models.PositiveBigIntegerField(null=True, blank=True)
    streams = models.PositiveIntegerField(null=True, blank=True)
    readers = models.PositiveIntegerField(null=True, blank=True)
    resummarize_per_hour = models.PositiveIntegerField(null=True, blank=True)
    minute = models.DateTimeField(null=True, editable=False)
    """When the current minute of counting began."""
    minute_requests = models.IntegerField(default=0, editable=False)
    day = models.DateField(null=True, editable=False)
    day_tokens = models.BigIntegerField(default=0, editable=False)
    """Tokens of calls that have ended."""
    day_reserved = models.BigIntegerField(default=0, editable=False)
    """Tokens reserved by calls that began on that day and have not ended."""
    open_streams = models.IntegerField(default=0, editable=False)
    """Number of calls of any day that have not ended."""

    class Meta:
        verbose_name = verbose_name_plural = "limits"

    def __str__(self) -> str:
        return f"limits of user {self.user_id}"


class Reserved(models.Model):
    """The part of a user's allowance that a call holds until it has ended. No day: none, because limits were off."""

    reserved_tokens = models.BigIntegerField(default=0)
    reserved_day = models.DateField(null=True)
    reserved_minute = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class PassingCall(Reserved, Owned):
    """A running call whose answer is not stored. Deleted when it has ended or expired."""

    OWNER = "user_id"
    slot: Any = None
    """Its `quotas.Slot` among the calls of its app in this process. Not stored."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    expires_at = models.DateTimeField(db_index=True)


class Window(Owned):
    """A count of events of one kind since the first of them, such as the memory rebuilds of an hour.

    Requests of a minute are counted in `Allowance`, which a call locks anyway.
    """

    kind = models.CharField(max_length=24)
    """The limit that counts them."""
    key = models.CharField(max_length=64)
    """A user's id; for sign-in attempts a keyed hash, which reveals a name only to a reader who knows it."""
    owner_id = models.IntegerField(default=0)
    """The user whose events they are; 0 for sign-in attempts, which have no owner."""
    since = models.DateTimeField(db_index=True)
    count = models.IntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="window_once")]
        default_permissions = ()  # the admin does not show it
