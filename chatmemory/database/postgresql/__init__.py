"""Django's backend for PostgreSQL, by which `DATABASES` names it, with another look at pooled connections."""
