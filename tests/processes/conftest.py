"""Fixtures of the process tests."""

from tests.support.product import fake, offline_product, product

__all__ = ["fake", "offline_product", "product"]
