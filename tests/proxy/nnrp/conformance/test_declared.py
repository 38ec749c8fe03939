"""Where a server does other than it declares is said, and which way."""

from __future__ import annotations

from teeline.proxy.nnrp.conformance.declared import differences
from teeline.proxy.nnrp.discovery import Discovered, Modes
from teeline.validators.nnrp.capabilities import Capabilities, Declared

CHAT, RESPONSES = "chat.completions.create", "responses.create"


def told(declared: dict[str, Declared], seen: dict[str, Modes]) -> list[str]:
    return [str(d) for d in differences(Capabilities(declared), Discovered(seen))]


def test_a_server_that_does_what_it_declares_differs_in_nothing() -> None:
    assert told({CHAT: Declared(True, True, False)}, {CHAT: Modes(True, True, False)}) == []


def test_each_mode_differs_by_itself() -> None:
    assert told({CHAT: Declared(True, False, True)}, {CHAT: Modes(True, True, False)}) == [
        f"{CHAT} non_streaming: seen, not declared",
        f"{CHAT} tool_calls: declared, not seen",
    ]


def test_whole_operations_differ() -> None:
    assert told({CHAT: Declared(True, True, True)}, {RESPONSES: Modes(True)}) == [
        f"{CHAT}: declared, not seen",
        f"{RESPONSES}: seen, not declared",
    ]


def test_what_a_document_does_not_say_is_no_difference() -> None:
    assert told({CHAT: Declared()}, {CHAT: Modes(True)}) == []
