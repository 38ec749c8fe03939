"""The one typed payload of a FRAME_SUBMIT or RESULT_PUSH, down to its JSON document.

What belongs here: prelude, regions, descriptor and encoding, which are the same for both; each has a
table of its rules. What doesn't: what the document says. The first fault that makes the rest unreadable
is named alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from teeline.validators import evidence
from teeline.validators.checks.context import Context
from teeline.validators.checks.reporter import Reporter
from teeline.validators.evidence import ABSENT
from teeline.validators.wire.json import JsonFault, JsonFaultKind, decode
from teeline.validators.wire.nnrp import (
    Packet,
)
from teeline.validators.wire.nnrplayout import (
    DESCRIPTOR_BYTES,
    SNAPSHOT,
    STRUCTURED_EVENT,
    Descriptor,
    Prelude,
    descriptors_of,
    payload_start,
    prelude_of,
)

_MOST_DESCRIPTORS: Final = 64
_KNOWN_FLAGS: Final = 15


class JsonRules(NamedTuple):
    """The rules of an encoding."""

    utf8: str
    invalid: str
    trailing: str


class BodyRules(NamedTuple):
    """The rules of a body."""

    raw: str
    prelude: str
    extra_frames: str
    descriptor_region: str
    payload_region: str
    extra_regions: str
    kind: str
    profile: str
    schema: str
    schema_version: str
    snapshot: str
    flags: str
    mismatch: str
    json: JsonRules


SUBMIT: Final = BodyRules(
    "nnrp.submit-raw-json",
    "nnrp.submit-prelude-wrong",
    "nnrp.submit-extra-frames",
    "nnrp.submit-descriptor-region-wrong",
    "nnrp.submit-payload-region-wrong",
    "nnrp.submit-extra-regions",
    "nnrp.submit-payload-kind-wrong",
    "nnrp.submit-descriptor-profile-bound",
    "nnrp.submit-descriptor-schema-bound",
    "nnrp.submit-descriptor-schema-version-bound",
    "nnrp.submit-not-snapshot",
    "nnrp.submit-descriptor-flags-set",
    "nnrp.submit-metadata-mismatch",
    JsonRules("nnrp.submit-utf8-invalid", "nnrp.submit-json-invalid", "nnrp.submit-json-trailing"),
)
TERMINAL: Final = BodyRules(
    "nnrp.terminal-raw-json",
    "nnrp.terminal-prelude-wrong",
    "nnrp.terminal-extra-frames",
    "nnrp.terminal-descriptor-region-wrong",
    "nnrp.terminal-payload-region-wrong",
    "nnrp.terminal-extra-regions",
    "nnrp.terminal-payload-kind-wrong",
    "nnrp.terminal-descriptor-profile-bound",
    "nnrp.terminal-descriptor-schema-bound",
    "nnrp.terminal-descriptor-schema-version-bound",
    "nnrp.terminal-not-snapshot",
    "nnrp.terminal-descriptor-flags-set",
    "nnrp.terminal-metadata-mismatch",
    JsonRules(
        "nnrp.terminal-utf8-invalid", "nnrp.terminal-json-invalid", "nnrp.terminal-json-trailing"
    ),
)


class Payload(NamedTuple):
    """What was read: ``value`` is ABSENT for none. ``framed`` false: the frame itself is broken.

    ``refused``: extra frames, another kind, a binding, other semantics or an encoding that must fail.
    """

    value: Any = ABSENT
    framed: bool = True
    refused: bool = False


def read_payload(
    ctx: Context, packet: Packet, bitmap: int, count: int, rules: BodyRules
) -> Payload:
    """Reads the body of a packet that is not empty, reporting its faults."""
    report, body = ctx.report, packet.body
    prelude = prelude_of(body)
    if prelude is None:
        raw = decode(body, ctx.limits.depth)
        rule = rules.raw if raw.ok and isinstance(raw.value, dict | list) else rules.prelude
        report(rule, detail=f"{len(body)} bytes of body", byte=packet.body_offset)
        return Payload(raw.value if rule is rules.raw else ABSENT, framed=False)
    if prelude.flags or prelude.reserved:
        report("nnrp.reserved-nonzero", detail="body prelude", byte=packet.body_offset)
    if prelude.descriptors % DESCRIPTOR_BYTES or not prelude.descriptors:
        report(rules.descriptor_region, detail=f"{prelude.descriptors} bytes of descriptors")
        return Payload(framed=False)
    if prelude.extra:
        report(rules.extra_regions, detail=f"{prelude.extra} bytes in other regions")
    found = prelude.descriptors // DESCRIPTOR_BYTES
    described = descriptors_of(body, prelude, _MOST_DESCRIPTORS)
    return _described(ctx, packet, prelude, described, (bitmap, count, found), rules)


def _described(
    ctx: Context,
    packet: Packet,
    prelude: Prelude,
    described: list[Descriptor],
    claimed: tuple[int, int, int],
    rules: BodyRules,
) -> Payload:
    report = ctx.report
    bitmap, count, found = claimed
    union = 0
    for descriptor in described:
        union |= descriptor.kind
    if count != found or (bitmap != union and found <= _MOST_DESCRIPTORS):
        detail = f"metadata: {count} frames, kinds {bitmap}; body: {found} frames, kinds {union}"
        report(rules.mismatch, detail=detail)
        return Payload(_quietly(ctx, packet, prelude, described), framed=False)
    if found > 1:
        report(rules.extra_frames, detail=f"{found} payload frames")
        return Payload(_quietly(ctx, packet, prelude, described), refused=True)
    descriptor = described[0]
    if descriptor.kind != STRUCTURED_EVENT:
        report(rules.kind, detail=f"payload kind {descriptor.kind}")
        return Payload(_quietly(ctx, packet, prelude, described), refused=True)
    bound = _check_descriptor(report, descriptor, rules)
    if descriptor.offset or descriptor.length != prelude.payloads:
        detail = f"offset {descriptor.offset}, length {descriptor.length} of {prelude.payloads}"
        report(rules.payload_region, detail=detail)
        return Payload(_quietly(ctx, packet, prelude, described), framed=False, refused=bound)
    start = payload_start(prelude)
    text = packet.body[start : start + prelude.payloads]
    value, readable = read_json(ctx, text, packet.body_offset + start, rules.json)
    return Payload(value, refused=bound or not readable)


def _check_descriptor(report: Reporter, found: Descriptor, rules: BodyRules) -> bool:
    """Reports what is wrong with the descriptor; whether it must make the frame fail."""
    fatal = False
    for rule, name, value in (
        (rules.profile, "profile_id", found.profile),
        (rules.schema, "schema_id", found.schema),
        (rules.schema_version, "schema_version", found.schema_version),
    ):
        if value:
            report(rule, detail=f"descriptor {name} {value}")
            fatal = True
    if found.semantics != SNAPSHOT:
        report(rules.snapshot, detail=f"descriptor stream_semantics {found.semantics}")
        fatal = True
    if found.flags:
        report(rules.flags, detail=f"descriptor_flags {found.flags}")
    if found.reserved or found.flags & ~_KNOWN_FLAGS:
        report("nnrp.reserved-nonzero", detail="payload descriptor")
    return fatal


def _quietly(ctx: Context, packet: Packet, prelude: Prelude, described: list[Descriptor]) -> Any:
    """The document of the first payload where it can be read; its faults are follow-ups."""
    if not described:
        return ABSENT
    start = payload_start(prelude) + described[0].offset
    end = min(start + described[0].length, payload_start(prelude) + prelude.payloads)
    value = decode(packet.body[start:end], ctx.limits.depth).value
    return value if isinstance(value, dict) else ABSENT


def read_json(ctx: Context, text: bytes, byte: int, rules: JsonRules) -> tuple[Any, bool]:
    """The JSON value of a text (ABSENT: none), and whether it is valid; ``byte`` is where it begins."""
    document = decode(text, ctx.limits.depth)
    if not document.faults:
        return document.value, True
    report = ctx.report
    faults = [fault for fault in document.faults if fatal_rule(fault, text, rules)]
    if faults:
        # Bytes that are no UTF-8 are mostly no JSON either; the encoding is the cause.
        fatal = next((f for f in faults if f.kind is JsonFaultKind.UTF8), faults[0])
        rule = fatal_rule(fatal, text, rules)
        detail = f"{fatal.kind.value} at byte {fatal.byte} of {len(text)}"
        report(rule, detail=detail, byte=byte + fatal.byte)
        return (document.value if rule == rules.trailing and document.ok else ABSENT), False
    for fault in document.faults:
        if fault.kind is JsonFaultKind.DEPTH:
            ctx.partial("depth-limit")
            return ABSENT, True
        rule = _LESSER.get(fault.kind, "")
        if rule:
            pointer = evidence.pointer_of(fault.pointer)
            report(rule, pointer, detail=f"at byte {fault.byte}", byte=byte + fault.byte)
    return (document.value if document.ok else ABSENT), True


_LESSER: Final = {
    JsonFaultKind.BOM: "nnrp.json-bom",
    JsonFaultKind.DUPLICATE_KEY: "nnrp.json-duplicate-key",
    JsonFaultKind.SURROGATE: "nnrp.json-surrogate",
}


def fatal_rule(fault: JsonFault, text: bytes, rules: JsonRules) -> str:
    """The rule of a fault that leaves no valid document; a number beyond a double is a number."""
    if fault.kind is JsonFaultKind.UTF8:
        return rules.utf8
    if fault.kind is JsonFaultKind.TRAILING:
        return rules.trailing
    if fault.kind in (JsonFaultKind.INVALID, JsonFaultKind.EMPTY):
        return rules.invalid
    if fault.kind is JsonFaultKind.NONFINITE and text[fault.byte : fault.byte + 2].lstrip(b"-")[
        :1
    ] in (b"N", b"I"):
        return rules.invalid
    return ""
