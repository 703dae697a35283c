"""Users who are being erased, and the log of what was erased."""

from datetime import UTC

from django.conf import settings
from django.contrib.auth.models import User
from django.db import models
from django.db.models.functions import Now


class Erasure(models.Model):
    """A user who is being erased: already disabled, and deleted once all their data is gone."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="+")
    requested_at = models.DateTimeField(db_default=Now())

    class Meta:
        default_permissions = ()  # the admin does not show it


class Erased(models.Model):
    """A line in the log of erasures, written with each: ids only, so that a restored backup can forget it again."""

    class Kind(models.TextChoices):
        CHAT = "chat"
        MESSAGE = "message"
        USER = "user"

    kind = models.CharField(max_length=8, choices=Kind.choices)
    object_id = models.CharField(max_length=64)
    """An id; of a user `number time`, with the time at which they joined: a restored database may give away their
    number a second time."""
    at = models.DateTimeField(db_default=Now(), db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "object_id"], name="erased_once")]
        default_permissions = ()  # `manage.py retain --log` prints it

    @staticmethod
    def log(kind: Kind, *object_ids: object) -> None:
        """Write these down in the transaction that erases them; what is in the log stays as it is."""
        rows = [Erased(kind=kind, object_id=str(one)) for one in object_ids]
        Erased.objects.bulk_create(rows, ignore_conflicts=True)

    @staticmethod
    def user_id(user: User) -> str:
        return f"{user.pk} {user.date_joined.astimezone(UTC).isoformat()}"
