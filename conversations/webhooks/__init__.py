"""Webhooks of apps: events, which addresses they may go to, and sending them."""
