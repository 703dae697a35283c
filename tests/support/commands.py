"""Management commands, called as an operator does."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command


def run(command: str, *args: object, **options: Any) -> str:
    """Run the command and return what it prints."""
    out, err = StringIO(), StringIO()
    call_command(command, *map(str, args), stdout=out, stderr=err, **options)
    assert err.getvalue() == "", "there is no terminal to draw a bar on"
    return out.getvalue()


def refusal(command: str, *args: object, **options: Any) -> str:
    """Run the command, which fails, and return why."""
    with pytest.raises(CommandError) as caught:
        run(command, *args, **options)
    assert caught.value.returncode == 1
    return str(caught.value)
