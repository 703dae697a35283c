"""What is added to Django's databases: executors, compiled statements, fields, checks at the start."""
