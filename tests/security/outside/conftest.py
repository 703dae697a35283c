"""Fixtures of the tests that test the product from outside."""

from tests.support.product import offline_product

__all__ = ["offline_product"]
