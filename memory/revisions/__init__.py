"""Changes between versions of memory: stepping back, restoring, editing and comparing."""
