"""Plan the prompt of a reply within its budget, render it, record it and rebuild it."""
