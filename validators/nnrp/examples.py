"""The examples of the NNRP rules, turned into the bytes of both sides.

An example names a legal conversation (``on``, one of ``rules/_nnrp.toml``), or has ``packets`` of its own,
and says what is changed in it:

=================  ======================================================================================
``set``            JSON Pointer -> JSON text; the first token is the 1-based number of the packet
``remove``         JSON Pointers taken out (``/2``: the second packet)
``insert``         packet number -> JSON text of a packet put before it, or a list of such texts
``raw``            pairs of side (``c``, ``s``) and text, bytes sent behind the packets
``opening``        false: no CLIENT_HELLO, no session
``close``          who ends the connection first, ``client`` or ``server``; ``lost`` for a reset,
                   ``none`` where the recording ends before
``carrier``        ``websocket``: each packet is a message of its own
``capabilities``   the capability document at hand, as JSON text
``document``       a document to check instead of a conversation; ``form`` says what it is: a capability
                   document in one of its two forms, or a ``recipe``
``/http/...``      in ``set`` and ``remove``: the HTTP side of a bridge, where the base has one
``limits``         limits (limits.py) other than the default ones
``also``           other rules of severity warn or fail that the change cannot but break, too
=================  ======================================================================================

A packet is an object: ``c`` or ``s`` names its message and its side; ``json`` is the document it carries,
``text`` the text that stands for it, ``body`` a whole body; ``header``, ``meta``, ``prelude`` and
``descriptor`` hold fields that differ from what is right; ``copies`` is the number of payload frames; ``at``
the second at which it was seen. Lone surrogates in texts are bytes that are no UTF-8.
"""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from struct import Struct
from typing import Any, Final, NamedTuple

from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Side
from teeline.validators.rules.examples import ExampleError, changed, removed
from teeline.validators.wire.nnrp import (
    METADATA_LENGTHS,
    Message,
    packed,
)
from teeline.validators.wire.nnrplayout import (
    STRUCTURED_EVENT,
)

_KEYS: Final = frozenset(
    {
        "on",
        "packets",
        "set",
        "remove",
        "insert",
        "raw",
        "opening",
        "close",
        "carrier",
        "capabilities",
    }
    | {"document", "form", "limits", "also"}
)
_STEP: Final = 0.01
_HTTP: Final = "/http/"


class Sent(NamedTuple):
    """Bytes of one side, and when they were seen (seconds from the start)."""

    side: Side
    data: bytes
    at: float


@dataclass(frozen=True, slots=True)
class Conversation:
    """What both sides sent, and how it ended."""

    sent: tuple[Sent, ...]
    close: str
    capabilities: bytes | None
    limits: Limits


@functools.cache
def bases() -> Mapping[str, Mapping[str, Any]]:
    """The legal conversations and documents by name."""
    text = resources.files("teeline.validators.rules").joinpath("_nnrp.toml")
    return tomllib.loads(text.read_text(encoding="utf-8"))


def is_document(example: Mapping[str, Any]) -> bool:
    """Whether an example is a document instead of a conversation."""
    return "document" in example or "document" in bases().get(example.get("on", ""), {})


def document(example: Mapping[str, Any]) -> tuple[bytes, str | None]:
    """A capability document or a recipe, and the form that it is held against."""
    base = bases().get(example.get("on", ""), {})
    form = example.get("form", base.get("form"))
    if "document" in example:
        text: str = example["document"]
        return _bytes(text), form
    value = changed(json.loads(_base(example)["document"]), example.get("set", {}))
    for pointer in example.get("remove", ()):
        removed(value, pointer)
    return _bytes(_dumps(value)), form


def http_side(example: Mapping[str, Any]) -> dict[str, Any] | None:
    """The HTTP side of a bridge's example as an object; None for an example without one."""
    text = bases().get(example.get("on", ""), {}).get("http")
    if text is None:
        return None
    ours = {p[5:]: t for p, t in example.get("set", {}).items() if p.startswith(_HTTP)}
    value: dict[str, Any] = changed(json.loads(text), ours)
    for pointer in sorted(example.get("remove", ()), reverse=True):
        if pointer.startswith(_HTTP):
            removed(value, pointer[5:])
    return value


def conversation(example: Mapping[str, Any]) -> Conversation:
    """An example as bytes."""
    packets = packets_of(example)
    plain = example.get("carrier") != "websocket"
    sent = list(_sent(packets, opening=example.get("opening", True)))
    last = sent[-1].at if sent else 0.0
    for side, text in example.get("raw", ()):
        sent.append(Sent(_SIDES[side], text.encode("latin-1"), last + _STEP))
    if not plain:
        sent = [*_upgrade(), *(s._replace(data=_message(s)) for s in sent)]
    capabilities = example.get("capabilities")
    return Conversation(
        tuple(sent),
        example.get("close", "client"),
        _bytes(capabilities) if capabilities is not None else None,
        replace(DEFAULT_LIMITS, **example.get("limits", {})),
    )


def packets_of(example: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The packets of an example as objects, without the opening and the close."""
    # A leading hole makes the numbers of packets 1-based, as places count them.
    packets = [None, *map(json.loads, _base(example)["packets"])]
    ours = {p: t for p, t in example.get("set", {}).items() if not p.startswith(_HTTP)}
    packets = changed(packets, ours)
    for pointer in sorted(example.get("remove", ()), reverse=True):
        if not pointer.startswith(_HTTP):
            removed(packets, pointer)
    inserted = {int(number): texts for number, texts in example.get("insert", {}).items()}
    for number, texts in sorted(inserted.items(), reverse=True):
        packets[number:number] = map(json.loads, [texts] if isinstance(texts, str) else texts)
    kept: list[dict[str, Any]] = packets[1:]
    return kept


def _base(example: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = example.keys() - _KEYS
    if unknown:
        raise ExampleError(f"unknown keys {sorted(unknown)}")
    if "packets" in example:
        return {"packets": [_dumps(packet) for packet in example["packets"]]}
    base = bases().get(example.get("on", ""))
    if base is None:
        raise ExampleError(f"unknown base {example.get('on')!r}")
    return base


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# -- packets -------------------------------------------------------------------------------------------


def _words(text: str) -> list[str]:
    return text.split()


_SIDES: Final = {"c": Side.REQUEST, "s": Side.RESPONSE}
_SUBMIT_NAMES: Final = (
    "src_width src_height tile_width tile_height tile_count section_count frame_class input_profile "
    "tile_index_mode reserved0 latency_budget_ms target_fps_x100 retry_of_frame tile_base_id "
    "camera_bytes tile_index_bytes reserved1 operation_id reserved2 submit_mode budget_policy "
    "loss_tolerance_policy reserved3 object_ref_mask dependency_frame_id payload_kind_bitmap "
    "payload_frame_count reserved4"
)
_RESULT_NAMES: Final = (
    "status_code result_flags section_count tile_count active_profile_id reserved0 inference_ms "
    "queue_ms server_total_ms reserved1 tile_base_id tile_index_bytes reserved2 reserved3 "
    "result_class applied_budget_policy reserved4 reused_frame_id covered_tile_count "
    "dropped_tile_count payload_kind_bitmap payload_frame_count reserved5"
)
_CONTROL: Final = (
    Struct("<QQHBBIQ"),
    _words("operation_id sequence reason source_role flags diagnostic_bytes reserved"),
)
_OPEN_NAMES: Final = (
    "requested_session_id profile_id priority flags schema_id schema_version default_deadline_ms "
    "max_in_flight reserved lease_ttl resume_token_bytes auth_bytes ext_bytes client_tag"
)
_LAYOUTS: Final[Mapping[int, tuple[Struct, list[str]]]] = {
    Message.FRAME_SUBMIT: (Struct("<HHHHHHBBBBHHIIIIIQIBBBBIIIHH"), _words(_SUBMIT_NAMES)),
    Message.RESULT_PUSH: (Struct("<HHHHHHHHHHIIQQBBHIHHIHH"), _words(_RESULT_NAMES)),
    Message.PARTIAL_RESULT: (
        Struct("<QQQQII"),
        _words("operation_id result_sequence object_id delta_sequence body_bytes flags"),
    ),
    Message.CANCEL: _CONTROL,
    Message.ABORT: _CONTROL,
    Message.RESULT_DROP_REASON: _CONTROL,
    Message.ERROR: (
        Struct("<8I"),
        _words("code scope fatal retry_after_ms session frame view diagnostic_bytes"),
    ),
    Message.SESSION_OPEN: (Struct("<IHBBIIIHHIIIIQ"), _words(_OPEN_NAMES)),
}
_ACK: Final = Struct("<IHBBIIHH36x")
_PRELUDE_NAMES: Final = _words(
    "inline_objects object_references descriptors payloads extension_descriptors "
    "extension_payloads flags reserved"
)
_DESCRIPTOR_NAMES: Final = _words(
    "profile_id payload_kind flags schema_id schema_version stream_semantics reserved offset length"
)
_TYPED: Final = frozenset({Message.FRAME_SUBMIT, Message.RESULT_PUSH})


def _sent(packets: list[dict[str, Any]], *, opening: bool) -> Iterator[Sent]:
    sequences: dict[Any, int] = {}
    for number, packet in enumerate([*(_OPENING if opening else ()), *packets], 1):
        at = packet.get("at", number * _STEP)
        side = "c" if "c" in packet else "s"
        yield Sent(_SIDES[side], _packet(packet, Message[packet[side]], sequences), at)


_OPENING: Final[tuple[dict[str, Any], ...]] = (
    {"c": "CLIENT_HELLO", "session": 0, "frame": 0},
    {"s": "SERVER_HELLO_ACK", "session": 0, "frame": 0},
    {
        "c": "SESSION_OPEN",
        "session": 0,
        "frame": 0,
        "meta": {"profile_id": 2, "schema_id": 0x1001, "schema_version": 3, "max_in_flight": 4},
    },
    {"s": "SESSION_OPEN_ACK", "session": 1, "frame": 0},
)


def _packet(packet: Mapping[str, Any], kind: Message, sequences: dict[Any, int]) -> bytes:
    session, frame = packet.get("session", 1), packet.get("frame", 1)
    body = _body(packet, kind)
    fields = {"operation_id": packet.get("op", frame + 1000)}
    if kind is Message.PARTIAL_RESULT:
        sequences[frame] = sequences.get(frame, 0) + 1
        fields |= {"result_sequence": sequences[frame], "body_bytes": len(body)}
    elif kind is Message.FRAME_SUBMIT:
        fields |= {"tile_index_mode": 1, "loss_tolerance_policy": 0xFF}
    if kind in _TYPED and ("json" in packet or "text" in packet):
        fields["payload_kind_bitmap"] = STRUCTURED_EVENT
        fields["payload_frame_count"] = packet.get("copies", 1)
    meta = _meta(kind, {**fields, **packet.get("meta", {})}, session)
    if "meta_length" in packet:
        meta = meta[: packet["meta_length"]].ljust(packet["meta_length"], b"\0")
    header = packet.get("header", {})
    return packed(header.get("type", kind), meta, body, session, frame, **_without_type(header))


def _without_type(header: Mapping[str, int]) -> dict[str, int]:
    return {name: value for name, value in header.items() if name != "type"}


def _meta(kind: Message, fields: Mapping[str, int], session: int) -> bytes:
    if kind is Message.SESSION_OPEN_ACK:
        return _ACK.pack(session, 2, 1, 0, 0x1001, 3, 2, 4)
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return bytes(METADATA_LENGTHS.get(kind, 0))
    struct, names = layout
    return struct.pack(*(fields.get(name, 0) for name in names))


def _text(packet: Mapping[str, Any]) -> bytes | None:
    if "text" in packet:
        return _bytes(packet["text"])
    return _bytes(_dumps(packet["json"])) if "json" in packet else None


def _body(packet: Mapping[str, Any], kind: Message) -> bytes:
    if "body" in packet:
        return _bytes(packet["body"])
    text = _text(packet)
    if kind not in _TYPED and "descriptor" not in packet:
        return text or b""
    if text is None and "prelude" not in packet:
        return b""
    return _typed(text, packet)


def _typed(text: bytes | None, packet: Mapping[str, Any]) -> bytes:
    copies = packet.get("copies", 1) if text is not None else 0
    payload = (text or b"") * copies
    descriptors = b"".join(
        _DESCRIPTOR.pack(*(_descriptor(packet, text or b"", n)[k] for k in _DESCRIPTOR_NAMES))
        for n in range(copies)
    )
    extra = bytes(packet.get("extension_bytes", 0))
    lengths = dict.fromkeys(_PRELUDE_NAMES, 0) | {
        "descriptors": len(descriptors),
        "payloads": len(payload),
        "extension_payloads": len(extra),
    }
    lengths |= packet.get("prelude", {})
    prelude = _PRELUDE.pack(*(lengths[name] for name in _PRELUDE_NAMES))
    return prelude + descriptors + payload + extra


_DESCRIPTOR: Final = Struct("<HBBIIHHII")
_PRELUDE: Final = Struct("<8I")


def _descriptor(packet: Mapping[str, Any], text: bytes, number: int) -> dict[str, int]:
    right = dict.fromkeys(_DESCRIPTOR_NAMES, 0) | {
        "payload_kind": STRUCTURED_EVENT,
        "stream_semantics": 1,
        "offset": number * len(text),
        "length": len(text),
    }
    right.update(packet.get("descriptor", {}))
    return right


# -- WebSocket -----------------------------------------------------------------------------------------


def _upgrade() -> list[Sent]:
    request = b"GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    answer = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    return [Sent(Side.REQUEST, request, 0.0), Sent(Side.RESPONSE, answer, 0.0)]


def _message(sent: Sent) -> bytes:
    """A binary message of its own, masked as a client must (with zeros)."""
    size = len(sent.data)
    mask = 0x80 if sent.side is Side.REQUEST else 0
    length = bytes([mask | 126]) + size.to_bytes(2, "big") if size > 125 else bytes([mask | size])
    return b"\x82" + length + (bytes(4) if mask else b"") + sent.data
