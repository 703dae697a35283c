"""A view whose requests are limited by the minute, those with a refused body as well."""

from typing import Any

from rest_framework.request import Request

from chatmemory.api.async_view import AsyncView
from chatmemory.api.http import caller
from chatmemory.database import executors
from chatmemory.runtime.large_work import SMALL_BYTES
from conversations.accounts import quotas


class LimitedView(AsyncView):
    """A view that calls a model. What is refused counts against the minute, too, because reading it costs."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Also refuse a large body before it is parsed, if the user has no request left."""
        super().initial(request, *args, **kwargs)
        if self.length > SMALL_BYTES:
            quotas.require_request_left(caller(request).pk)

    async def count_refusal(self) -> None:
        user_id = self.request.user.pk
        if user_id is not None:
            await executors.write(quotas.count_refused, user_id)
