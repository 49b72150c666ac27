"""The base of all settings: unknown fields are errors, names are looked up in registries, and messages name the field."""

from typing import Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from reign._validate import did_you_mean
from reign.registry import Registry


class Settings(BaseModel):
    """Settings that reject unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def name_in(registry: Registry[Any]) -> AfterValidator:
    """A validator that a name is registered. It returns the registered spelling of the name."""
    return AfterValidator(lambda name: registry.name_of(registry[name]))


def fields(settings: type[BaseModel], prefix: str = "") -> list[str]:
    """The dotted names of all fields, as used by ``--set``."""
    names = []
    for name, field in settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            names += fields(kind, f"{prefix}{name}.")
        else:
            names.append(prefix + name)
    return names


def explain(error: ValidationError, settings: type[BaseModel], most: int | None = None) -> str:
    """All errors that pydantic found, or at most some, each with the field, the problem and the value."""
    return "; ".join(_explain(dict(each), settings) for each in error.errors()[:most])


def _explain(error: dict[str, Any], settings: type[BaseModel]) -> str:
    place = [str(part) for part in error["loc"]]
    name = ".".join(place)
    if error["type"] == "extra_forbidden":
        known = [field.split(".") for field in fields(settings)]
        beside = {field[len(place) - 1] for field in known if field[: len(place) - 1] == place[:-1]}
        return f"there is no setting '{name}'{did_you_mean(place[-1], beside)} Known: {', '.join(sorted(beside))}"
    message = error["msg"].removeprefix("Value error, ").rstrip(".").split(" or instance of")[0]
    given = error.get("input")
    said = error["type"] == "value_error"  # our own messages include the value
    shown = "" if said or isinstance(given, dict | BaseModel) else f" (got {given!r:.100})"
    return f"{name + ': ' if place else ''}{message[:1].lower()}{message[1:]}{shown}"
