"""The login page of the admin, as `quickstart` opens it."""

from __future__ import annotations

import pytest

from tests.browser.support.first_look import Person

pytestmark = pytest.mark.browser


def test_the_admin_lets_in_whom_quickstart_names(keeper: Person) -> None:
    assert keeper.page.inner_text("#site-name") == "chatmemory"
    assert keeper.axe() == []
    assert keeper.troubles() == []


def test_the_login_page_is_for_everybody(visitor: Person) -> None:
    visitor.go("/admin/login/")
    assert visitor.axe() == []
    assert visitor.troubles() == []
