"""The PostgreSQL backend that `DATABASES` names: Django's, with cheaper checks of pooled connections."""
