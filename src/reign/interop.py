"""Load weights of other code: ``from_authors`` makes a model from the weights of the authors' implementation."""

from reign.published import from_authors

__all__ = ["from_authors"]
