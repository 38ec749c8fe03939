"""What a request set, as far as it can be told: numbers and protocol words, for reports and telemetry.

What belongs here: which members are kept, and their bounds. What doesn't: whether they are right
(requestrules.py). Nothing that a user wrote is kept: no stop sequence, no name, no metadata.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_WORD = re.compile(r"[a-z][a-z0-9_.-]{0,31}\Z")
_LARGEST = 2**53

NUMBERS: Final[Mapping[str, str]] = {
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "n": "choices",
    "dimensions": "dimensions",
}
"""Members that are numbers, by what they are called here: one name whatever the operation."""
WORDS: Final[Mapping[str, str]] = {
    "service_tier": "service_tier",
    "encoding_format": "encoding_format",
}
_NAMES: Final[Mapping[str, str]] = {**NUMBERS, **WORDS}
_ORDER: Final = list(_NAMES).index
_FORMATS: Final = frozenset({"response_format", "text"})
_OUTPUTS: Final = {"text": "text", "json_object": "json", "json_schema": "json"}


def settings_of(document: Mapping[str, Any]) -> dict[str, int | float | str]:
    """The settings of a request; members of other types than documented are left out."""
    found: dict[str, int | float | str] = {}
    members = [member for member in document if member in _NAMES]
    if len(members) > 1:
        members.sort(key=_ORDER)
    for member in members:
        value = document[member]
        if _is_number(value) if member in NUMBERS else _word(value):
            found[_NAMES[member]] = value
    if not _FORMATS.isdisjoint(document) and (output := _output(document)):
        found["output"] = output
    return found


def tier_of(value: Mapping[str, Any]) -> str | None:
    """The service tier that an answer names, in itself or in the ``response`` of an event."""
    if tier := _word(value.get("service_tier")):
        return tier
    inner = value.get("response")
    return _word(inner.get("service_tier")) if isinstance(inner, dict) else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) and _WORD.match(value) else None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_LARGEST <= value <= _LARGEST  # false for NaN, too


def _output(document: Mapping[str, Any]) -> str | None:
    """``text`` or ``json``, from chat's response_format or the text.format of Responses."""
    text = document.get("text")
    asked = document.get("response_format", text.get("format") if isinstance(text, dict) else None)
    kind = asked.get("type") if isinstance(asked, dict) else None
    return _OUTPUTS.get(kind) if isinstance(kind, str) else None
