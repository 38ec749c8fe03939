"""Text that a peer chose, made fit to be shown: on terminals, in logs, in telemetry.

What belongs here: escaping and bounding of single strings. What doesn't: deciding which strings may
be shown at all (that is evidence, in the validators), layout and colour (console.py and reports).
"""

from __future__ import annotations

SHOWN = 200
"""Characters that are shown of a peer's string where nothing else is said."""

_INT64 = 2**63 - 1


def printable(text: str, limit: int = SHOWN) -> str:
    """``text`` on one line with nothing hidden in it, in at most ``limit`` characters (at least 4).

    Whatever Unicode doesn't count as printable is written as an escape: control characters (ANSI
    sequences begin with one), bidirectional controls, zero-width and other format characters, line
    separators, lone surrogates. The result can always be encoded as UTF-8.
    """
    if len(text) <= limit and text.isprintable():
        return text
    cut = text[:limit]
    shown = cut if cut.isprintable() else "".join(map(_shown, cut))
    if len(shown) > limit or len(text) > limit:
        return shown[: limit - 3] + "..."
    return shown


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    # Not repr(): it would double backslashes and quotes of the text around.
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def int64(number: int) -> int:
    """``number`` within the 64 bits that OTLP and JSON encoders take; larger ones at the bound."""
    if -_INT64 <= number <= _INT64:
        return number
    return _INT64 if number > 0 else -_INT64
