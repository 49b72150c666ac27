"""Read settings as plain values from YAML and from ``key=value``, and merge them."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from reign.disk import first_line

RawSettings = dict[str, Any]  # settings as YAML has them: plain values, nested, with or without mistakes
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same in C, where it is installed
LONGEST, DEEPEST, LARGEST = 2**20, 20, 100_000  # bounds on the characters, levels and values of YAML: far more than settings need


def read_yaml(file: Path) -> RawSettings:
    """Read a YAML file of settings."""
    try:
        values = parse_yaml(Path(file).read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not YAML ({error}).") from None
    except ValueError as error:
        raise ValueError(f"{file} {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{file} holds {type(values).__name__}, expected settings such as 'data:' and 'model:'.")
    return values


def parse_yaml(text: str) -> Any:
    """Read plain values from YAML. Raise ``ValueError`` for text that is not YAML, or far larger than settings are.

    An alias stands for a copy, so a few lines can stand for billions of values. All values are counted before any are made.

    >>> parse_yaml("{a: &x [1, 2], b: *x}")
    {'a': [1, 2], 'b': [1, 2]}
    """
    if len(text) > LONGEST:
        raise ValueError(f"holds {len(text):,} characters, expected at most {LONGEST:,}.")
    try:
        _check_size(text)
        return yaml.load(text, Loader=LOADER)
    except yaml.YAMLError as error:
        raise ValueError(f"is not YAML ({' '.join(str(error).split())}).") from None
    except (
        TypeError,
        OverflowError,
        AttributeError,
        RecursionError,
        UnicodeError,
    ) as error:  # by unusual dates, numbers, keys, signs
        raise ValueError(f"is not YAML ({first_line(error)}).") from None


def _check_size(text: str) -> None:
    """Raise ``ValueError`` if YAML is nested too deeply or stands for too many values."""
    sizes: dict[str, int] = {}  # number of values that an anchor stands for
    open_: list[tuple[str | None, int]] = [
        (None, 0)
    ]  # the open collections: their anchors, and the number of values in them so far
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, 1))
            if len(open_) > DEEPEST:
                raise ValueError(f"is nested more than {DEEPEST} levels deep, expected settings with fewer levels.")
            continue
        anchor, size = None, 1
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, size = open_.pop()
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in sizes:  # the anchor does not exist, or is the collection that holds the alias
                raise ValueError(f"has an alias *{event.anchor} without a complete anchor &{event.anchor} before it.")
            size = sizes[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            anchor = event.anchor
        else:
            continue
        if anchor is not None:
            sizes[anchor] = size
        outer, total = open_[-1]
        open_[-1] = (outer, total + size)
        if total + size > LARGEST:
            raise ValueError(f"stands for more than {LARGEST:,} values, expected settings with fewer values.")


def merge(*settings: Mapping[str, Any]) -> RawSettings:
    """Merge nested settings; later ones override earlier ones.

    >>> merge({"model": {"name": "sun", "num_layers": 6}}, {"model": {"name": "ds"}})
    {'model': {'name': 'ds', 'num_layers': 6}}
    """
    out: RawSettings = {}
    for values in settings:
        for key, value in values.items():
            if isinstance(value, Mapping) and isinstance(out.get(key), Mapping):
                out[key] = merge(out[key], value)
            else:
                out[key] = value
    return out


def nested(key: str, value: Any) -> RawSettings:
    """A dotted key as nested settings.

    >>> nested("train.optimiser.lr", 0.1)
    {'train': {'optimiser': {'lr': 0.1}}}
    """
    for part in reversed(key.split(".")):
        value = {part: value}
    return value


def override(text: str) -> RawSettings:
    """``key=value`` as nested settings; the value is read as YAML.

    >>> override("train.epochs=3")
    {'train': {'epochs': 3}}
    """
    key, sign, value = text.partition("=")
    if not sign or not key.strip() or "" in key.strip().split("."):
        raise ValueError(f"--set got {text!r}, expected key=value, as in train.optimiser.lr=0.001.")
    return nested(key.strip(), read_value(value))


def choices(text: str) -> tuple[str, list[Any]]:
    """``key=v1,v2`` as a key and its values, each read as YAML. Commas inside of brackets and quotes belong to a value.

    >>> choices("model.hidden_channels=64,128")
    ('model.hidden_channels', [64, 128])
    >>> choices("model.terms=[own, own+local],[own]")
    ('model.terms', [['own', 'own+local'], ['own']])
    """
    key, sign, values = text.partition("=")
    if not sign or not values:
        raise ValueError(f"--grid got '{text}', expected key=v1,v2, as in model.hidden_channels=64,128.")
    return key.strip(), [_number(value) for value in _parsed(f"[{values}]", values)]


def read_value(text: str) -> Any:
    """Read a value as YAML, but also read 1e-3 as a number, which YAML takes for text.

    >>> [read_value(text) for text in ("3", "1e-3", "ego+:2", "[64, 64]", "null")]
    [3, 0.001, 'ego+:2', [64, 64], None]
    """
    return _number(_parsed(text, text))


def _parsed(text: str, given: str) -> Any:
    try:
        return parse_yaml(text)
    except ValueError:
        raise ValueError(f"{given[:80]!r} cannot be read as a YAML value.") from None


def _number(value: Any) -> Any:
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            return float(value)
    return value
