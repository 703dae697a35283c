"""The page that says in a sentence why a sign-in is refused."""

import logging

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

logger = logging.getLogger(__name__)


def refused(request: HttpRequest, sentence: str, status: int = 403) -> HttpResponse:
    logger.info("sign-in refused", extra={"reason": sentence})
    return render(
        request, "sign_in/refused.html", {"title": "Not signed in", "told": sentence}, status=status
    )
