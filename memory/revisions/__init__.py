"""Older versions of memory: stepped back to, restored, edited and compared."""
