"""The product's settings, but with a password hash that costs nothing: hundreds of wrong passwords are tried."""

from chatmemory.settings import *  # noqa: F403  # settings are names

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
