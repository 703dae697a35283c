"""What clients see of memory."""
