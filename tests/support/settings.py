"""The settings of a process that a test started with some of `FIXED` in its environment."""

import json
import os
from dataclasses import replace

from chatmemory.settings import *  # noqa: F403  # settings are looked up by name
from tests.support.fixed_settings import VARIABLE

_given = {name: json.loads(value) for name, value in json.loads(os.environ[VARIABLE]).items()}
globals().update(_given)
if "CHEAP_PASSWORDS" in _given:
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
if "REPLY_MAX_BYTES" in _given:
    REPLY_DEADLINES = replace(REPLY_DEADLINES, max_bytes=_given["REPLY_MAX_BYTES"])  # noqa: F405  # by the star
