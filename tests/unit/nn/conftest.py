"""What a test registers is forgotten after it."""

from collections.abc import Iterator

import pytest

from reign.nn import CONVS, MODELS


@pytest.fixture(autouse=True)
def _forget_what_was_registered() -> Iterator[None]:
    before = [(registry, dict(registry._entries), dict(registry._aliases)) for registry in (MODELS, CONVS)]
    yield
    for registry, entries, aliases in before:
        registry._entries, registry._aliases = entries, aliases
