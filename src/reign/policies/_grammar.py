"""The names of policies: ``name[+[distance[cap]]][:depth]``, as in "nd", "ego+:3" and "nm+distance8".

A policy is a dataclass, and its fields determine which parts of a name it accepts: ``mark`` allows the "+", ``max_distance`` the cap,
and ``num_hops`` the depth.
"""

import re
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from reign.registry import Registry

if TYPE_CHECKING:
    from reign.policies._base import Policy

POLICIES: Registry[type["Policy"]] = Registry(
    "policy",
    spelling=lambda name: name.strip().lower(),
    pattern=r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*|2-",  # "2-" is a prefix of the name of another policy
)
GRAMMAR = re.compile(
    r"(?P<tuple>2-)?(?P<name>[a-z][a-z0-9_]*(-[a-z0-9_]+)*)"
    r"(?P<mark>\+(?P<distance>distance(?P<cap>\d+)?)?)?(:(?P<depth>\d+))?(@(?P<sample>[\d.]+))?"
)


def parse(text: str) -> re.Match[str] | None:
    """The parts of a policy's name, or None if it does not follow the grammar or is not the name of a policy."""
    part = GRAMMAR.fullmatch(text.strip().lower())
    return None if part is None or part["name"] not in POLICIES else part


def make(text: str, part: re.Match[str]) -> "Policy":
    """Make a policy from the parts of its name. ``text`` is the whole name, for messages."""
    kind = POLICIES[part["name"]]
    takes = _fields(kind)
    options: dict[str, Any] = {}
    if part["mark"]:
        if "mark" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no mark, got '{text}'; only 'nm' and 'ego' take marks.")
        options["mark"] = "distance" if part["distance"] else True
    if part["cap"]:
        if "max_distance" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no largest distance, got '{text}'; write '+distance'.")
        options["max_distance"] = int(part["cap"])
    if part["depth"] is not None:
        if "num_hops" not in takes:
            raise ValueError(f"policy '{part['name']}' takes no depth, got '{text}'; write '{text.split(':')[0]}'.")
        options["num_hops"] = int(part["depth"])
    elif "num_hops" in takes and _required(takes["num_hops"]):
        raise ValueError(f"policy '{text}' needs a depth, as in '{text.split('@')[0]}:3'.")
    if missing := [name for name, field in takes.items() if name not in options and _required(field)]:
        raise ValueError(f"policy '{text}' needs {', '.join(missing)}, which cannot be part of a name; use {kind.__name__}(...).")
    return kind(**options)


def name_of(policy: "Policy") -> str | None:
    """The name from which ``make`` makes an equal policy, or None if there is none."""
    name, takes = POLICIES.name_of(type(policy)), _fields(type(policy))
    if name is None:
        return None
    if "mark" in takes and policy.mark != takes["mark"].default:
        name += {True: "+", "distance": "+distance"}.get(policy.mark, "")
        if policy.mark == "distance" and "max_distance" in takes:
            name += str(policy.max_distance)
    if "num_hops" in takes:
        name += f":{policy.num_hops}"  # type: ignore[attr-defined]
    part = parse(name)
    try:
        return name if part is not None and make(name, part) == policy else None
    except ValueError:
        return None


def _required(field: "Field[Any]") -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _fields(kind: type["Policy"]) -> dict[str, "Field[Any]"]:
    return {field.name: field for field in fields(kind) if field.init} if is_dataclass(kind) else {}
