"""Fixtures of the process tests."""

from pathlib import Path

import pytest

from tests.support.product import fake, offline_product, product
from tests.support.released import unpack

__all__ = ["fake", "offline_product", "old_tree", "product"]


@pytest.fixture(scope="session")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the released version."""
    folder = tmp_path_factory.mktemp("old")
    try:
        unpack(folder)
    except LookupError as error:
        pytest.skip(str(error))
    return folder
