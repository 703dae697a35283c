"""Messages as turns."""
