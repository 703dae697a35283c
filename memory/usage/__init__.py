"""Tokens and cost by day."""
