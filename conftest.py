"""What a test, or an example in the documentation, registers by name is forgotten after it."""

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _forget_what_was_registered() -> Iterator[None]:
    # here and not above: the checks of signatures must be switched on before reign is imported
    from reign.data import DATASETS
    from reign.nn import CONVS, MODELS, TERMS
    from reign.policies import POLICIES
    from reign.theory import FAMILIES
    from reign.train.settings.losses import LOSSES
    from reign.train.settings.metrics import METRICS
    from reign.train.settings.optim import OPTIMISERS, SCHEDULES

    registries = (POLICIES, CONVS, TERMS, MODELS, DATASETS, FAMILIES, LOSSES, METRICS, OPTIMISERS, SCHEDULES)
    MODELS.items()  # those of reign.published are imported now, and not forgotten afterwards
    before = [(dict(registry._entries), dict(registry._aliases)) for registry in registries]
    yield
    for registry, (entries, aliases) in zip(registries, before, strict=True):
        registry._entries, registry._aliases = entries, aliases
