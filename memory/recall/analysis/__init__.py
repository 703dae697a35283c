"""Text as search terms. Pure."""
