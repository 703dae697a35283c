"""The product's settings with a cheap password hash, because hundreds of wrong passwords are tried."""

from chatmemory.settings import *  # noqa: F403  # settings are looked up by name

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
