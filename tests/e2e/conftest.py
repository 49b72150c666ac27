"""Whole commands run as users run them."""

import pytest


@pytest.fixture(autouse=True)
def _as_users_meet_it(signatures_unchecked: None) -> None:
    """Without the checks of signatures; the parts that commands are made of are tested with them elsewhere."""
