"""What a test, or an example in the documentation, registers by name is forgotten after it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _forget_what_was_registered() -> Iterator[None]:
    from reign.data import DATASETS  # here and not above: the checks of signatures must be switched on before reign is imported
    from reign.policies import POLICIES

    registries = (POLICIES, DATASETS)
    before = [(dict(registry._entries), dict(registry._aliases)) for registry in registries]
    yield
    for registry, (entries, aliases) in zip(registries, before, strict=True):
        registry._entries, registry._aliases = entries, aliases
