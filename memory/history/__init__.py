"""Messages grouped into turns, and their costs."""
