"""Webhooks of apps: the events to be told, where to, and telling them."""
