"""Explanations for staff and clients: why a prompt is what it is, and where a fact is and was."""
