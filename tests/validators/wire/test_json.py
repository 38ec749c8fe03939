"""What strict decoding promises: the value that every parser gives, and each fault with its place."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teeline.validators.wire.json import (
    MAX_FAULTS,
    MAX_POINTER,
    Document,
    JsonFault,
    JsonFaultKind,
    decode,
    decode_leniently,
)

Kind = JsonFaultKind
promised = settings(deadline=None)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
AWKWARD = st.sampled_from(
    ["", ":", "a:", '"', '":', "\\", "\\\\", "~", "/", "é", "😀", "\x00", "u003a"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
    AWKWARD,
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT | AWKWARD, inner, max_size=4),
    max_leaves=20,
)
BLANKS = st.sampled_from(["", " ", "\n", "\r\n\t "])

CHUNK = (
    '{"id":"chatcmpl-1","created":1733000000,"ok":true,"none":null,"rate":-1.5e-3,"choices":[{"index":0,'
    '"delta":{"content":"caf\\u00e9 \\"x\\": 😀 \\ud83d\\ude00 é"},"finish_reason":false}],"usage":{}}'
).encode()


def kinds(document: Document) -> list[JsonFaultKind]:
    return [fault.kind for fault in document.faults]


def only(data: bytes) -> JsonFault:
    """The one fault of a document."""
    faults = decode(data).faults
    assert len(faults) == 1, faults
    return faults[0]


@st.composite
def written(draw: st.DrawFn) -> tuple[Any, bytes]:
    """A value, and one of the ways to write it."""
    value = draw(VALUES)
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
        separators=(draw(BLANKS) + "," + draw(BLANKS), draw(BLANKS) + ":" + draw(BLANKS)),
    )
    return value, (text + draw(BLANKS)).encode()


@st.composite
def repeating(draw: st.DrawFn) -> bytes:
    """A valid document whose objects may repeat their names, in any spelling of them."""
    names = st.sampled_from(
        ['"a"', '"\\u0061"', '"\\\\"', '":"', '"\\u003a"', '"\\""', '"é"', '":\\\\"']
    )
    values = st.recursive(
        names | st.sampled_from(["1", "null", "-0.5"]),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]"),
            st.lists(st.tuples(names, BLANKS, inner), max_size=4).map(
                lambda members: f"{{{','.join(f'{n}{b}:{v}' for n, b, v in members)}}}"
            ),
        ),
        max_leaves=12,
    )
    return draw(values).encode()


@st.composite
def surrounded(draw: st.DrawFn) -> tuple[str, str, str]:
    """What stands before and behind a value deep in a document, and the pointer of the value."""
    before, behind, pointer = "", "", ""
    for step in draw(st.lists(st.integers(0, 3) | TEXT | AWKWARD, max_size=5)):
        sibling = json.dumps(draw(SCALARS))
        if isinstance(step, int):
            before += "[" + f"{sibling}," * step
            behind = f",{sibling}]" + behind
        else:
            before += (
                json.dumps({step + "!": 0}, ensure_ascii=False)[:-1] + f",{json.dumps(step)}: "
            )
            behind = "}" + behind
        pointer += "/" + str(step).replace("~", "~0").replace("/", "~1")
    return before, behind, pointer


class TestCleanDocuments:
    @promised
    @given(written())
    def test_a_valid_document_has_its_value_and_no_fault(self, case: tuple[Any, bytes]) -> None:
        value, data = case
        assert decode(data) == Document(value, True, ())
        assert value == json.loads(data)

    def test_a_chunk_with_every_kind_of_value_and_escape_is_clean(self) -> None:
        assert decode(CHUNK) == Document(json.loads(CHUNK), True, ())

    @pytest.mark.parametrize(
        "content", [":", ': "', '":"', '\\":', "a\\\\", '{\\"a\\":{\\"b\\": 1}}']
    )
    def test_colons_and_quotes_in_strings_are_no_repeated_names(self, content: str) -> None:
        data = json.dumps({"content": content, "x\\": content, "y": {content: 1}}).encode()
        assert decode(data) == Document(json.loads(data), True, ())

    def test_white_space_behind_the_value_is_nothing(self) -> None:
        assert decode(b"[1] \r\n\t") == Document([1], True, ())

    @pytest.mark.parametrize("data", [b"0", b"-0", b"1e-999", b"1E+2", b"18446744073709551615"])
    def test_every_spelling_of_a_finite_number_is_clean(self, data: bytes) -> None:
        assert decode(data) == Document(json.loads(data), True, ())

    def test_an_integer_beyond_64_bits_is_a_float_with_and_without_other_faults(self) -> None:
        digits = b"-9223372036854775809"
        for data in (digits, b"[" + digits + b",{},NaN]"):
            value = decode(data).value
            number = value[0] if isinstance(value, list) else value
            assert type(number) is float
            assert number == -9223372036854775809.0


class TestNeverRaises:
    @promised
    @given(st.binary(max_size=200))
    def test_any_bytes_are_decoded(self, data: bytes) -> None:
        self.check(data)

    @promised
    @given(st.text(alphabet='{}[]",:\\u0dDeE+-.19aNIl\x00\n \ufeffé', max_size=60))
    def test_anything_made_of_the_characters_of_json_is_decoded(self, text: str) -> None:
        self.check(text.encode())

    @promised
    @given(written(), st.data())
    def test_a_document_with_a_byte_changed_is_decoded(
        self, case: tuple[Any, bytes], draw: st.DataObject
    ) -> None:
        data = bytearray(case[1])
        data[draw.draw(st.integers(0, len(data) - 1))] = draw.draw(st.integers(0, 255))
        self.check(bytes(data))

    def check(self, data: bytes) -> None:
        document = decode(data)
        found = kinds(document)
        offsets = [fault.byte for fault in document.faults]
        assert offsets == sorted(offsets)
        assert all(0 <= offset <= len(data) for offset in offsets)
        assert document.ok == (not {Kind.INVALID, Kind.DEPTH, Kind.EMPTY} & set(found))
        assert document.ok or document.value is None
        assert self.is_json(data) == (not set(found) - {Kind.DUPLICATE_KEY, Kind.LEADING_SPACE})

    def is_json(self, data: bytes) -> bool:
        """What another strict parser says."""
        try:
            orjson.loads(data)
        except orjson.JSONDecodeError:
            return False
        return True


class TestFaultsInside:
    @promised
    @given(
        surrounded(),
        st.sampled_from(["NaN", "Infinity", "-Infinity", "1e999", "-1E+400", "9" * 400]),
    )
    def test_a_number_that_is_not_finite_is_found(
        self, around: tuple[str, str, str], number: str
    ) -> None:
        before, behind, pointer = around
        document = decode((before + number + behind).encode())
        assert document.faults == (JsonFault(Kind.NONFINITE, len(before.encode()), pointer),)
        assert document.ok

    @promised
    @given(
        surrounded(), st.sampled_from(["\\ud800", "\\uDBFFx", "\\udc00", "\\ud800\\ud83d\\ude00"])
    )
    def test_a_lone_surrogate_is_found(self, around: tuple[str, str, str], escape: str) -> None:
        before, behind, pointer = around
        before += '"\\\\\\u00e9\\ud83d\\ude00'
        document = decode(f'{before}{escape}"{behind}'.encode())
        assert document.faults == (JsonFault(Kind.SURROGATE, len(before.encode()), pointer),)
        assert document.ok

    @promised
    @given(surrounded(), TEXT | AWKWARD | st.sampled_from(["model", "sk-1"]), SCALARS)
    def test_a_repeated_name_is_found(
        self, around: tuple[str, str, str], name: str, first: Any
    ) -> None:
        before, behind, pointer = around
        member = json.dumps(name, ensure_ascii=False)
        before += f'{{{member}:{json.dumps(first)},"between ":{{{member}:[]}},'
        faults = decode(f"{before}{member}:2}}{behind}".encode()).faults
        token = name.replace("~", "~0").replace("/", "~1")
        assert [fault[:3] for fault in faults] == [
            (Kind.DUPLICATE_KEY, len(before.encode()), f"{pointer}/{token}")
        ]

    @promised
    @given(surrounded(), st.sampled_from([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe4\xb8"]))
    def test_bytes_that_are_not_utf8_are_found_and_replaced(
        self, around: tuple[str, str, str], raw: bytes
    ) -> None:
        before, behind, _ = around
        document = decode(before.encode() + b'"x' + raw + b'"' + behind.encode())
        assert document.faults[0] == JsonFault(Kind.UTF8, len(before.encode()) + 2)
        assert set(kinds(document)) == {Kind.UTF8}
        assert "x\ufffd" in json.dumps(document.value, ensure_ascii=False)

    @promised
    @given(repeating())
    def test_no_repeated_name_is_missed_and_none_is_made_up(self, data: bytes) -> None:
        repeats = 0

        def count(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            nonlocal repeats
            repeats += len(pairs) - len(dict(pairs))
            return dict(pairs)

        value = json.loads(data, object_pairs_hook=count)
        document = decode(data)
        assert kinds(document) == [Kind.DUPLICATE_KEY] * min(repeats, MAX_FAULTS)
        assert document.value == value

    def test_a_name_that_ends_in_a_backslash_does_not_hide_a_repeated_one(self) -> None:
        data = rb'{"a":1,"a":2,"b\\":3}'
        assert only(data) == JsonFault(Kind.DUPLICATE_KEY, 7, "/a", "a")

    def test_an_escaped_colon_does_not_hide_a_repeated_name(self) -> None:
        assert only(rb'{"a":1,"a":"\u003a"}').kind is Kind.DUPLICATE_KEY
        assert decode(rb'{"a":1,"b":"\u003A"}') == Document({"a": 1, "b": ":"}, True, ())

    def test_the_last_of_repeated_members_is_the_value(self) -> None:
        assert decode(b'{"a":1,"b":2,"a":{"c":3}}').value == {"a": {"c": 3}, "b": 2}

    def test_faults_in_a_member_that_was_replaced_keep_their_places(self) -> None:
        faults = decode(b'{"a":[NaN],"a":{"b":1,"b":NaN}}').faults
        assert [fault[:3] for fault in faults] == [
            (Kind.NONFINITE, 6, "/a/0"),
            (Kind.DUPLICATE_KEY, 11, "/a"),
            (Kind.DUPLICATE_KEY, 22, "/a/b"),
            (Kind.NONFINITE, 26, "/a/b"),
        ]

    def test_several_problems_come_in_the_order_of_their_bytes(self) -> None:
        data = b'\xef\xbb\xbf\n{"a":NaN,"a":"\\udc00","b":"\xff"} [DONE]'
        document = decode(data)
        assert kinds(document) == [
            Kind.BOM,
            Kind.LEADING_SPACE,
            Kind.NONFINITE,
            Kind.DUPLICATE_KEY,
            Kind.SURROGATE,
            Kind.UTF8,
            Kind.TRAILING,
        ]
        assert [fault.byte for fault in document.faults] == [0, 3, 9, 13, 18, 31, 35]
        assert document.value == {"a": "\udc00", "b": "\ufffd"}

    def test_a_value_that_is_not_finite_is_kept_as_a_float(self) -> None:
        first, *others = decode(b"[NaN,Infinity,-Infinity,1e999]").value
        assert math.isnan(first)
        assert others == [math.inf, -math.inf, math.inf]

    def test_a_detail_names_a_repeated_name_only_where_it_is_an_identifier(self) -> None:
        assert only(b'{"model":1,"model":2}').detail == "model"
        for name in ("sk-proj-123", "a b", "x" * 41, "né", "<b>"):
            assert only(f'{{"{name}":1,"{name}":2}}'.encode()).detail == ""

    def test_a_lone_surrogate_in_a_name_never_gets_into_a_pointer(self) -> None:
        pointers = [fault.pointer for fault in decode(rb'{"\ud800":[NaN]}').faults]
        assert pointers == ["/\ufffd", "/\ufffd/0"]


class TestAroundTheValue:
    def test_a_byte_order_mark_is_found_and_the_value_decoded(self) -> None:
        assert decode(b"\xef\xbb\xbf[1]") == Document([1], True, (JsonFault(Kind.BOM, 0),))

    def test_white_space_in_front_is_noted_once(self) -> None:
        assert decode(b" \n[1]") == Document([1], True, (JsonFault(Kind.LEADING_SPACE, 0),))

    @pytest.mark.parametrize("garbage", [b"x", b"[DONE]", b"{}", b",", b"\x00", b"\xc2\xa0", b"]"])
    def test_anything_else_behind_the_value_is_trailing(self, garbage: bytes) -> None:
        document = decode(b'{"a":[1]} \n' + garbage)
        assert document == Document({"a": [1]}, True, (JsonFault(Kind.TRAILING, 11),))

    def test_what_trails_hides_no_fault_inside(self) -> None:
        assert kinds(decode(b'{"a":1,"a":2}x')) == [Kind.DUPLICATE_KEY, Kind.TRAILING]

    @pytest.mark.parametrize("data", [b"", b" ", b"\r\n\t"])
    def test_nothing_is_empty(self, data: bytes) -> None:
        assert decode(data) == Document(None, False, (JsonFault(Kind.EMPTY, len(data)),))

    def test_a_byte_order_mark_alone_is_empty(self) -> None:
        assert kinds(decode(b"\xef\xbb\xbf \n")) == [Kind.BOM, Kind.EMPTY]


class TestNoValue:
    @pytest.mark.parametrize(
        ("data", "byte", "detail"),
        [
            (b"{'a':1}", 1, ""),
            (b"<!DOCTYPE html><html></html>", 0, ""),
            (b"Internal Server Error", 0, ""),
            (b"nan", 0, ""),
            (b'{"a":None}', 5, ""),
            (b"[01]", 2, ""),
            (b"[1 2]", 3, ""),
            (b"[1}", 2, ""),
            (b'{"a" 1}', 5, ""),
            (b'["a\nb"]', 3, "control-character"),
            (b'["a\\x"]', 3, "escape"),
            (b'["a\\u12"]', 4, "escape"),
        ],
    )
    def test_what_is_not_json_is_invalid_where_it_stops_being_json(
        self, data: bytes, byte: int, detail: str
    ) -> None:
        assert decode(data) == Document(None, False, (JsonFault(Kind.INVALID, byte, "", detail),))
        assert not only(data).truncated

    @pytest.mark.parametrize("data", [b"[1,]", b'{"a":1,}'])
    def test_a_comma_too_many_is_invalid_there_or_just_behind(self, data: bytes) -> None:
        # Python 3.13 and later point at the comma, earlier ones behind it.
        fault = only(data)
        assert fault.kind is Kind.INVALID
        assert fault.byte in (data.rindex(b","), data.rindex(b",") + 1)

    @pytest.mark.parametrize("end", range(1, len(CHUNK)))
    def test_a_document_cut_anywhere_is_truncated_at_its_end(self, end: int) -> None:
        document = decode(CHUNK[:end])
        assert document.faults == (JsonFault(Kind.INVALID, end, detail="truncated"),)
        assert document.faults[0].truncated

    @pytest.mark.parametrize(
        "data",
        [
            b"[-",
            b"[1.",
            b"[1e",
            b"[1.5E-",
            b"[-Inf",
            b"[Na",
            b"tru",
            b'"\\',
            b'"\\uD8',
            b'"\\ud800\\u',
        ],
    )
    def test_a_token_cut_short_is_truncated(self, data: bytes) -> None:
        assert only(data).truncated

    def test_a_repeated_name_called_truncated_is_not_truncation(self) -> None:
        assert not only(b'{"truncated":1,"truncated":2}').truncated

    def test_bytes_that_are_not_utf8_show_beside_what_is_not_json(self) -> None:
        assert decode(b"\xff\xfe{\x00").faults[:2] == (
            JsonFault(Kind.INVALID, 0),
            JsonFault(Kind.UTF8, 0),
        )


class TestLeniently:
    @given(VALUES, BLANKS, BLANKS, st.sampled_from([json.dumps, json.JSONEncoder(indent=1).encode]))
    @promised
    def test_a_clean_document_is_what_it_is(
        self, value: Any, before: str, behind: str, dumps: Any
    ) -> None:
        data = (before + dumps(value) + behind).encode()
        assert decode_leniently(data) == decode(data)

    @pytest.mark.parametrize(
        "data",
        [b"", b" ", b"{", b"[1]x", b"\xef\xbb\xbf{}", b'"\xff"', b"NaN", b'"\\ud800"', b"1e999"],
    )
    def test_every_other_fault_is_found(self, data: bytes) -> None:
        assert decode_leniently(data) == decode(data)
        assert decode(data).faults

    def test_the_last_of_repeated_names_is_no_fault(self) -> None:
        data = b'{"a":1,"b":{"a":1,"a":2},"a":3}'
        assert decode_leniently(data) == Document(decode(data).value, True, ())
        assert decode_leniently(data).value == {"a": 3, "b": {"a": 2}}


class TestBounds:
    @pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('{"a":[', "]}")])
    def test_depth_is_allowed_up_to_the_maximum_and_no_further(
        self, opening: str, closing: str
    ) -> None:
        levels = 128 // len(closing)
        assert decode((opening * levels + "1" + closing * levels).encode()).faults == ()
        deep = decode((opening * levels + "[]" + closing * levels).encode())
        assert deep == Document(None, False, (JsonFault(Kind.DEPTH, len(opening) * levels),))

    @given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 45))
    def test_the_shortest_documents_are_as_deep_as_they_are(
        self, objects: list[bool], max_depth: int
    ) -> None:
        """Levels as arrays and objects without anything else in them: how few bytes may hold them."""
        *outer, last = objects
        opening = "".join('{"":' if is_object else "[" for is_object in outer)
        closing = "".join("}" if is_object else "]" for is_object in reversed(outer))
        data = (opening + ("{}" if last else "[]") + closing).encode()
        for read in (decode, decode_leniently):
            assert read(data, max_depth).ok is (len(objects) <= max_depth)

    def test_depth_counts_levels_and_not_brackets_or_strings(self) -> None:
        data = b'["' + b"[{" * 200 + b'",' + b'{"a":[]},' * 200 + b"NaN]"
        assert kinds(decode(data)) == [Kind.NONFINITE]
        assert only(data[:-1] + b"," + b"[" * 128).byte == len(data) + 127

    def test_a_mebibyte_of_brackets_is_too_deep_and_exhausts_nothing(self) -> None:
        for data in (b"[" * 2**20, b'{"":' * 2**18, b" " + b"[" * 2**20 + b"]" * 2**20):
            assert kinds(decode(data, max_depth=10**9))[-1] is Kind.DEPTH

    def test_digits_without_end_are_no_error(self) -> None:
        assert only(b"[" + b"1" * 5000 + b"]") == JsonFault(Kind.NONFINITE, 1, "/0")
        assert decode(b"[0." + b"1" * 5000 + b",NaN]").value[0] == pytest.approx(1 / 9)

    def test_sixteen_mebibytes_are_decoded(self) -> None:
        text = b"x\\n" * (16 * 2**20 // 3)
        document = decode(b'["' + text + b'",NaN]')
        assert document.faults == (JsonFault(Kind.NONFINITE, len(text) + 4, "/1"),)

    def test_faults_of_a_kind_are_bounded_and_hide_no_other_kind(self) -> None:
        items = b"".join(b'NaN,{"a":1,"a":1},"\\ud800","\xff",' for _ in range(100))
        found = kinds(decode(b"[" + items + b"1]x"))
        inside = (Kind.NONFINITE, Kind.DUPLICATE_KEY, Kind.SURROGATE, Kind.UTF8)
        assert {kind: found.count(kind) for kind in inside} == dict.fromkeys(inside, MAX_FAULTS)
        assert found[-1] is Kind.TRAILING

    @pytest.mark.parametrize("name", ["x" * 20_000, "/" * (MAX_POINTER - 1)])
    def test_a_pointer_that_would_be_too_long_is_left_out(self, name: str) -> None:
        assert only(f'{{"{name}":NaN}}'.encode()).pointer == ""
