"""Plain values of settings: from YAML, from ``key=value``, and merged."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml


def read_yaml(file: Path) -> dict[str, Any]:
    """A YAML file of settings."""
    try:
        values = yaml.safe_load(Path(file).read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not YAML ({' '.join(str(error).split())}).") from None
    if not isinstance(values, dict):
        raise ValueError(f"{file} holds {type(values).__name__}, expected settings such as 'data:' and 'model:'.")
    return values


def merge(*settings: Mapping[str, Any]) -> dict[str, Any]:
    """Nested settings, later ones over earlier ones.

    >>> merge({"model": {"name": "sun", "num_layers": 6}}, {"model": {"name": "ds"}})
    {'model': {'name': 'ds', 'num_layers': 6}}
    """
    out: dict[str, Any] = {}
    for values in settings:
        for key, value in values.items():
            if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
                out[key] = merge(out[key], value)
            else:
                out[key] = value
    return out


def nested(key: str, value: Any) -> dict[str, Any]:
    """A dotted key as nested settings.

    >>> nested("train.optimiser.lr", 0.1)
    {'train': {'optimiser': {'lr': 0.1}}}
    """
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def override(text: str) -> dict[str, Any]:
    """``key=value`` as nested settings; the value is read as YAML.

    >>> override("train.epochs=3")
    {'train': {'epochs': 3}}
    """
    key, sign, value = text.partition("=")
    if not sign or not key.strip() or "" in key.strip().split("."):
        raise ValueError(f"--set got {text!r}, expected key=value, as in train.optimiser.lr=0.001.")
    return nested(key.strip(), read_value(value))


def choices(text: str) -> tuple[str, list[Any]]:
    """``key=v1,v2`` as a key and its values, each read as YAML.

    >>> choices("model.hidden_channels=64,128")
    ('model.hidden_channels', [64, 128])
    """
    key, sign, values = text.partition("=")
    if not sign or not values:
        raise ValueError(f"--grid got '{text}', expected key=v1,v2 as in model.hidden_channels=64,128.")
    return key.strip(), [read_value(value) for value in values.split(",")]


def read_value(text: str) -> Any:
    """A value as YAML has it, and 1e-3 as a number, which YAML takes for a word.

    >>> [read_value(text) for text in ("3", "1e-3", "ego+:2", "[64, 64]", "null")]
    [3, 0.001, 'ego+:2', [64, 64], None]
    """
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{text!r} cannot be read as a YAML value.") from None
    if isinstance(value, str):
        with suppress(ValueError):
            return float(value)
    return value
