"""SQL expressions that Django does not have."""

from typing import Any

from django.db.models import DateTimeField, Func


class DaysAfter(Func):
    """The time some days after another, from columns: `DaysAfter("last_message_at", "retain_days")`. Can be indexed."""

    output_field = DateTimeField()
    template = "datetime(%(expressions)s || ' days')"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        # An index takes no sum of a time with a time zone, which would depend on the session's.
        return self.as_sql(
            compiler,
            connection,
            template="((%(expressions)s * interval '1 day') AT TIME ZONE 'UTC')",
            arg_joiner=" AT TIME ZONE 'UTC' + ",
            **context,
        )
