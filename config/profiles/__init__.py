"""The vendor profiles that come with teeline: one YAML file each beside this module.

What belongs here: reading the files, and what makes one wrong. What doesn't: what a profile means
(validators/profiles.py), which one an upstream gets (model.py), and anything that no file says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import Any

import yaml

from teeline.validators.model import Severity
from teeline.validators.profiles import Lowering, Markers, Profile, ProfileError, check
from teeline.validators.rules import register

_Read = Callable[[Any], Any]
"""Reads one value; ProfileError says in one line what is wrong with it."""


@functools.cache
def profiles() -> Mapping[str, Profile]:
    """All profiles by name, in the order of their names. Raises ProfileError: our own mistake."""
    found: dict[str, Profile] = {}
    for file in sorted(resources.files(__package__).iterdir(), key=lambda f: f.name):
        if file.name.endswith(".yaml"):
            name = file.name.removesuffix(".yaml")
            found[name] = loads(name, file.read_text(encoding="utf-8"))
    _check_names(found)
    return found


def loads(name: str, text: str) -> Profile:
    """The profile that a file of this name holds. Raises ProfileError, which names file and key."""
    try:
        profile = _profile(name, yaml.safe_load(text))
        check(profile, register())
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it can't be read"
        raise ProfileError(f"{name}.yaml: not YAML: {problem}") from None
    except ProfileError as error:
        raise ProfileError(f"{name}.yaml: {error}") from None
    return profile


def _check_names(found: Mapping[str, Profile]) -> None:
    """No two profiles may answer to one name, and no two claim the same marker."""
    seen: dict[tuple[str, Any], str] = {}
    for profile in found.values():
        markers = profile.markers
        claims = [("name", n) for n in (profile.name, *profile.names)]
        claims += [("host", host) for host in markers.hosts]
        claims += [("header", header) for header in markers.headers]  # type: ignore[misc]
        claims += [("member", member) for member in markers.members]
        for claim in claims:
            other = seen.setdefault(claim, profile.name)
            if other != profile.name:
                raise ProfileError(
                    f"{claim[0]} {claim[1]} is claimed by {other} and {profile.name}"
                )


def _profile(name: str, document: Any) -> Profile:
    given = _members(document, "the file", _PROFILE)
    if "title" not in given:
        raise ProfileError("title is missing")
    return Profile(name=name, **given)


def _members(value: Any, where: str, readers: Mapping[str, _Read]) -> dict[str, Any]:
    """A mapping's members, each read by its reader."""
    if not isinstance(value, dict):
        raise ProfileError(f"{where} must be a mapping")
    read: dict[str, Any] = {}
    for key, member in value.items():
        if key not in readers:
            raise ProfileError(f"{where} has no key {key!r}; known: {', '.join(readers)}")
        try:
            read[key] = readers[key](member)
        except ProfileError as error:
            raise ProfileError(f"{key}: {error}") from None
    return read


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ProfileError("must be text")
    return " ".join(value.split())


def _word(value: Any) -> str:
    """Text in which the empty string is a word, too: Snowflake's finish_reason."""
    if not isinstance(value, str):
        raise ProfileError("must be text")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(_word, _list(value)))


def _lower_texts(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    if any(text != text.lower() for text in texts):
        raise ProfileError("must be in lower case")
    return texts


def _list(value: Any) -> Sequence[Any]:
    if not isinstance(value, list):
        raise ProfileError("must be a list")
    return value


def _headers(value: Any) -> tuple[tuple[str, str], ...]:
    """``name`` or ``name: start of the value``, in lower case."""
    pairs = (text.partition(":") for text in _lower_texts(value))
    return tuple((name.strip(), start.strip()) for name, _, start in pairs)


def _severity(value: Any) -> Severity:
    try:
        return Severity.parse(_text(value))
    except ValueError as error:
        raise ProfileError(str(error)) from None


def _lowerings(value: Any) -> tuple[Lowering, ...]:
    return tuple(map(_lowering, _list(value)))


def _lowering(value: Any) -> Lowering:
    given = _members(value, "an entry", _LOWERING)
    for key in ("rule", "to", "because"):
        if key not in given:
            raise ProfileError(f"{key} is missing")
    return Lowering(**given)


def _aliases(value: Any) -> Mapping[str, frozenset[str]]:
    if not isinstance(value, dict):
        raise ProfileError("must be a mapping of models to lists of models")
    _lower_texts(list(value))
    return {model: frozenset(_lower_texts(others)) for model, others in value.items()}


def _notes(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise ProfileError("must be a mapping of rules to sentences")
    return {_text(rule): _text(note) for rule, note in value.items()}


_LOWERING: Mapping[str, _Read] = {
    "rule": _text,
    "to": _severity,
    "because": _text,
    "when": lambda value: frozenset(_texts(value)),
    "words": lambda value: frozenset(_texts(value)),
    "models": _lower_texts,
}
_MARKERS: Mapping[str, _Read] = {
    "hosts": _lower_texts,
    "headers": _headers,
    "fingerprints": _texts,
    "ids": _texts,
    "members": _texts,
}
_PROFILE: Mapping[str, _Read] = {
    "title": _text,
    "about": _text,
    "names": _lower_texts,
    "lower": _lowerings,
    "markers": lambda value: Markers(**_members(value, "markers", _MARKERS)),
    "aliases": _aliases,
    "extensions": lambda value: frozenset(_texts(value)),
    "notes": _notes,
}
