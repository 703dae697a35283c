"""How people state instructions and preferences, by language. Data alone."""
