"""Capability documents: what an adapter declares, and what is wrong with the declaration.

What belongs here: the document in its two forms, the one of the profile and the one of the conformance
suite. What doesn't: operations that break what a document declares (the operation's own checks).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from teeline.validators import evidence
from teeline.validators.checks.reporter import Reporter
from teeline.validators.evidence import ABSENT
from teeline.validators.fields.nnrp import OPERATIONS, PROFILE, SCHEMA_VERSION, is_filled
from teeline.validators.wire.json import JsonFaultKind, decode

FORMS: Final = ("profile", "conformance")

_COMMON = frozenset({"profile", "schema_version", "compatibility_levels", "operations"})
_MEMBERS: Final[Mapping[str, frozenset[str]]] = {
    "profile": _COMMON | {"models"},
    "conformance": _COMMON | {"adapter", "extensions", "$schema"},
}
_UNKNOWN: Final[Mapping[str, str]] = {
    "profile": "nnrp.capability-field-unknown",
    "conformance": "nnrp.conformance-field-forbidden",
}
_FLAGS: Final = ("streaming", "non_streaming", "tool_calls")
_OPERATION_MEMBERS: Final = frozenset({"name", *_FLAGS, "cancellation"})
_EXTENSION_MEMBERS: Final = frozenset({"name", "critical", "description"})
_HIGHEST: Final = 3
_CHAT: Final = "chat.completions.create"
_RESPONSES: Final = "responses.create"
NO_DOCUMENT: Final = frozenset(
    {
        JsonFaultKind.INVALID,
        JsonFaultKind.TRAILING,
        JsonFaultKind.EMPTY,
        JsonFaultKind.UTF8,
        JsonFaultKind.BOM,
        JsonFaultKind.DEPTH,
    }
)
"""Faults that leave no document to look at."""


class Declared(NamedTuple):
    """The modes of one operation; None where the document doesn't say."""

    streaming: bool | None = None
    non_streaming: bool | None = None
    tool_calls: bool | None = None


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a document declares, as far as it can be read."""

    operations: Mapping[str, Declared] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    extensions: frozenset[str] = frozenset()
    levels: tuple[int, ...] = ()


def is_path(name: str) -> bool:
    """Whether an operation is called by an HTTP path."""
    return name.startswith("/") or "v1/" in name


def capabilities_of(data: bytes) -> Capabilities | None:
    """What a document declares; None where it is none at all."""
    document = decode(data).value
    if not isinstance(document, dict):
        return None
    operations = {
        entry["name"]: Declared(*(_flag(entry.get(name)) for name in _FLAGS))
        for entry in _objects(document.get("operations"))
        if is_filled(entry.get("name"))
    }
    levels = document.get("compatibility_levels")
    return Capabilities(
        operations,
        _names(document.get("models"), "id"),
        _names(document.get("extensions"), "name"),
        tuple(level for level in levels if _is_level(level)) if isinstance(levels, list) else (),
    )


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _objects(value: Any) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _names(value: Any, member: str) -> frozenset[str]:
    return frozenset(e[member] for e in _objects(value) if is_filled(e.get(member)))


def _is_level(level: Any) -> bool:
    return isinstance(level, int) and not isinstance(level, bool) and level >= 1


def form_of(document: Any) -> str:
    """The form that a document is written in, by the members that only one of the two has."""
    ours = isinstance(document, dict) and any(
        name in document for name in ("adapter", "extensions", "$schema")
    )
    return "conformance" if ours else "profile"


def check_capabilities(report: Reporter, data: bytes, form: str | None = None) -> None:
    """Reports what is wrong with a capability document; ``form`` None: the one that it looks like."""
    document = decode(data)
    fault = next((f for f in document.faults if f.kind in NO_DOCUMENT), None)
    if fault is not None:
        detail = f"{fault.kind.value} at byte {fault.byte}"
        report("nnrp.capability-not-object", detail=detail, byte=fault.byte)
        return
    value = document.value
    if not isinstance(value, dict):
        report("nnrp.capability-not-object", "", value)
        return
    form = form or form_of(value)
    _fixed(report, value, "profile", PROFILE, "nnrp.capability-profile-wrong")
    _fixed(report, value, "schema_version", SCHEMA_VERSION, "nnrp.capability-schema-version-wrong")
    levels = _levels(report, value.get("compatibility_levels", ABSENT))
    operations = _operations(report, value.get("operations", ABSENT), form)
    if levels is not None and operations is not None:
        _check_levels(report, levels, operations)
    _unknown_members(report, value, _MEMBERS[form], "", _UNKNOWN[form])
    if form == "conformance":
        _check_adapter(report, value)
    else:
        _check_models(report, value.get("models", ABSENT))


def _fixed(report: Reporter, value: Mapping[str, Any], name: str, word: str, rule: str) -> None:
    found = value.get(name, ABSENT)
    if found != word:
        report(rule, f"/{name}", found, words=True)


def _unknown_members(
    report: Reporter, value: Mapping[str, Any], known: frozenset[str], pointer: str, rule: str
) -> None:
    for name in value:
        if name not in known:
            report(rule, f"{pointer}/{evidence.token(name)}", value[name])


def _levels(report: Reporter, value: Any) -> set[int] | None:
    """The levels, None where they can't be told."""
    right = isinstance(value, list) and value and all(map(_is_level, value))
    if not right or len(set(value)) != len(value):
        report("nnrp.capability-levels-invalid", "/compatibility_levels", value)
        return None
    for n, level in enumerate(value):
        if level > _HIGHEST:
            report("nnrp.capability-level-unknown", f"/compatibility_levels/{n}", level)
    return set(value)


def _operations(report: Reporter, value: Any, form: str) -> Mapping[str, Declared] | None:
    """The operations by name, None where they can't be told."""
    if not isinstance(value, list) or not value or not all(isinstance(e, dict) for e in value):
        report("nnrp.capability-operations-invalid", "/operations", value)
        return None
    found: dict[str, Declared] = {}
    whole = True
    for n, entry in enumerate(value):
        pointer = f"/operations/{n}"
        name = entry.get("name", ABSENT)
        if is_filled(name):
            _check_name(report, name, pointer, repeated=name in found)
            found.setdefault(name, Declared(*(_flag(entry.get(flag)) for flag in _FLAGS)))
        else:
            report("nnrp.capability-operation-name-invalid", f"{pointer}/name", name)
            whole = False
        _check_flags(report, entry, pointer)
        _unknown_members(report, entry, _OPERATION_MEMBERS, pointer, _UNKNOWN[form])
    return found if whole else None


def _check_name(report: Reporter, name: str, pointer: str, *, repeated: bool) -> None:
    if repeated:
        report("nnrp.capability-operation-duplicate", f"{pointer}/name", name, words=True)
    elif is_path(name):
        report("nnrp.capability-operation-is-path", f"{pointer}/name", detail="an HTTP path")
    elif name not in OPERATIONS:
        report("nnrp.capability-operation-unknown", f"{pointer}/name", name, words=True)


def _check_flags(report: Reporter, entry: Mapping[str, Any], pointer: str) -> None:
    for flag in _FLAGS:
        if not isinstance(entry.get(flag), bool):
            value = entry.get(flag, ABSENT)
            report("nnrp.capability-operation-flag-invalid", f"{pointer}/{flag}", value)
    if "cancellation" in entry and not isinstance(entry["cancellation"], bool):
        rule = "nnrp.capability-operation-flag-invalid"
        report(rule, f"{pointer}/cancellation", entry["cancellation"])
    if entry.get("streaming") is False and entry.get("non_streaming") is False:
        report("nnrp.capability-operation-no-mode", pointer, detail="both modes are false")


def _check_levels(report: Reporter, levels: set[int], operations: Mapping[str, Declared]) -> None:
    if _CHAT not in operations:
        rule = (
            "nnrp.capability-chat-missing"
            if 1 in levels
            else "nnrp.capability-implied-chat-missing"
        )
        report(rule, "/operations", detail=f"{_CHAT} is not listed")
    if 2 in levels:
        responses = operations.get(_RESPONSES)
        if responses is None:
            rule = "nnrp.capability-level2-operation-missing"
            report(rule, "/operations", detail=f"{_RESPONSES} is not listed")
        elif False in (responses.streaming, responses.tool_calls):
            detail = f"{_RESPONSES} without streaming or tool calls"
            report("nnrp.capability-level2-incomplete", "/operations", detail=detail)
    if 3 in levels and not {"models.list", "embeddings.create"} & operations.keys():
        detail = "neither models.list nor embeddings.create"
        report("nnrp.capability-level3-operation-missing", "/operations", detail=detail)


def _check_models(report: Reporter, value: Any) -> None:
    if value is ABSENT:
        return
    right = isinstance(value, list) and all(
        isinstance(model, dict) and is_filled(model.get("id")) for model in value
    )
    if not right:
        report("nnrp.capability-models-invalid", "/models", value)


def _check_adapter(report: Reporter, value: Mapping[str, Any]) -> None:
    if not is_filled(value.get("adapter")):
        adapter = value.get("adapter", ABSENT)
        report("nnrp.conformance-adapter-missing", "/adapter", adapter)
    extensions = value.get("extensions", [])
    if not isinstance(extensions, list):
        report("nnrp.conformance-extension-invalid", "/extensions", extensions)
        return
    for n, extension in enumerate(extensions):
        _check_extension(report, extension, f"/extensions/{n}")


def _check_extension(report: Reporter, value: Any, pointer: str) -> None:
    right = isinstance(value, dict) and is_filled(value.get("name"))
    if not right or not isinstance(value.get("critical"), bool):
        report("nnrp.conformance-extension-invalid", pointer, value)
        return
    if value["critical"]:
        report("nnrp.conformance-extension-critical", f"{pointer}/critical", True)
    rule = "nnrp.conformance-field-forbidden"
    _unknown_members(report, value, _EXTENSION_MEMBERS, pointer, rule)
