"""A field table as one function that says yes: the quick half of ``table.walk``.

What belongs here: turning a table into Python source once, and the source into a function. What doesn't:
what a breach is called and where it lies; a no sends the object to the explaining walker, which decides.

The function says yes only to what the walker has nothing to report of. It may say no to more than that
(an odd class in the place of a JSON type), which costs time and nothing else. Only our own tables go into
the source, never a peer's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from teeline.validators.fields.table import Field, Table

Accepts = Callable[[Mapping[str, Any]], bool]

_CLASSES: Final = {
    "STRING": "str",
    "INTEGER": "int",
    "NUMBER": "float",
    "BOOLEAN": "bool",
    "OBJECT": "dict",
    "ARRAY": "list",
}
_STEP: Final = "    "


def compiled(table: Table) -> Accepts:
    """The function for one table and all tables inside it."""
    source = _Source()
    name = source.function(table)
    namespace = dict(source.constants)
    exec("\n".join(source.lines), namespace)
    accepts: Accepts = namespace[name]
    return accepts


class _Source:
    """The functions of a table and of those inside it, and the constants that they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self._numbers = count()

    def function(self, table: Table) -> str:
        """Adds a table's function behind those that it calls; its name."""
        body = [line for item in table.fields for line in self._field(item)]
        if table.unknown:
            body.append(f"if not o.keys() <= {self._constant(table.known)}: return False")
        name = f"accepts_{next(self._numbers)}"
        self.lines += [f"def {name}(o):", f"{_STEP}get = o.get"]
        self.lines += [_STEP + line for line in (*body, "return True")]
        return name

    def _constant(self, value: Any) -> str:
        name = f"C{next(self._numbers)}"
        self.constants[name] = value
        return name

    def _field(self, item: Field) -> Iterator[str]:
        body = list(self._value(item, "v"))
        if not body and not item.absent:
            return
        yield f"v = get({item.name!r})"
        if item.absent and item.nullable:
            yield f"if v is None and {item.name!r} not in o: return False"
        yield from self._present(item, "v", body)

    def _present(self, item: Field, name: str, body: list[str]) -> Iterator[str]:
        """``body`` where there is a value, and the answer where there is none."""
        if item.absent and not item.nullable:
            if not body or not body[0].startswith(f"if type({name}) is not "):
                yield f"if {name} is None: return False"
            yield from body
        elif body:
            yield f"if {name} is not None:"
            yield from (_STEP + line for line in body)

    def _value(self, item: Field, name: str) -> Iterator[str]:
        """Lines that return False where a value that is not null breaks a rule of its field."""
        by_class = {
            "str": list(self._text(item, name)),
            "dict": list(self._object(item, name)),
            "list": list(self._elements(item, name)),
            # Infinities are no JSON, and a NaN is nothing at all: x - x is 0 for every other number.
            "float": [f"if {name} - {name} != 0: return False"],
        }
        names = {str(member.name) for member in item.type}
        allowed = [kind for name, kind in _CLASSES.items() if name in names]
        if "NUMBER" in names and "INTEGER" not in names:
            allowed.append("int")
        if "INTEGRAL" in names and "NUMBER" not in names:
            allowed.append("float")
            by_class["float"] = [f"if not {name}.is_integer(): return False"]
        if not item.wrong and not item.integral:
            for kind in ("str", "dict", "list"):
                if kind not in allowed or not by_class[kind]:
                    continue
                yield f"if type({name}) is {kind}:"
                yield from (_STEP + line for line in by_class[kind])
            return
        if len(allowed) == 1:
            yield f"if type({name}) is not {allowed[0]}: return False"
            yield from by_class.get(allowed[0], ())
            return
        yield f"t = type({name})"
        for kind in allowed:
            yield f"{'el' if kind != allowed[0] else ''}if t is {kind}:"
            yield from (_STEP + line for line in by_class.get(kind) or ["pass"])
        yield "else: return False"

    def _text(self, item: Field, name: str) -> Iterator[str]:
        named = {value for value, rule in item.named.items() if rule}
        if item.values and item.outside:
            fine = item.values - named - ({""} if item.empty else set())
            yield f"if {name} not in {self._constant(frozenset(fine))}: return False"
            return
        if item.empty:
            yield f"if not {name}: return False"
        if named:
            yield f"if {name} in {self._constant(frozenset(named))}: return False"

    def _object(self, item: Field, name: str) -> Iterator[str]:
        if item.table is not None:
            yield f"if not {self.function(item.table)}({name}): return False"

    def _elements(self, item: Field, name: str) -> Iterator[str]:
        if item.items is None:
            return
        element = f"{name}e"
        body = list(self._present(item.items, element, list(self._value(item.items, element))))
        if body:
            yield f"for {element} in {name}:"
            yield from (_STEP + line for line in body)
