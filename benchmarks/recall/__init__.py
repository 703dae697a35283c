"""What recall finds, and what it costs."""
