"""The models by name."""

from typing import TYPE_CHECKING

from reign.registry import Registry

if TYPE_CHECKING:
    from reign.nn._model import Model

MODELS: Registry[type["Model"]] = Registry("model", hint="; a model of your own must be registered first")
