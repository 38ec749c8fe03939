"""A process that checks documents against schemas nobody vouches for: ``python -m`` this module.

It answers over its standard input and output until the input ends. A request is two lengths (4
bytes each, big-endian) and two JSON texts, the schema and the document; an answer is one length and
one JSON text, ``{"errors": [[pointer, keyword], ...], "unchecked": ""}``. The first answer, sent
unasked, says that the process is ready.

What belongs here: one check and the limits that the process sets itself. What doesn't: queueing,
time limits and replacement (schemapool.py), which must hold even if this process hangs.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, BinaryIO, Final

import jsonschema
from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend, validator_for
from referencing import Registry
from referencing.exceptions import InvalidAnchor, NoSuchAnchor, PointerToNowhere, Unresolvable

MAX_ERRORS: Final = 8
MAX_POINTER: Final = 512
"""Characters of a reported JSON Pointer; a longer one ends at the last name that fits."""

_CACHED: Final = 32
_RECURSION: Final = 4000
_OPEN_FILES: Final = 32
_NICE: Final = 10
_DANGLING: Final = (InvalidAnchor, NoSuchAnchor, PointerToNowhere)


class UncheckedError(Exception):
    """A document can't be checked; the text is the word that SchemaResult.unchecked carries."""


def main(arguments: list[str]) -> int:
    """Runs until the input ends. ``arguments``: memory in bytes, CPU seconds a check, levels."""
    memory, seconds, depth = (int(argument) for argument in arguments)
    limit_process(memory)
    serve(
        sys.stdin.buffer,
        sys.stdout.buffer,
        depth,
        before=functools.partial(renew_cpu_limit, seconds),
    )
    return 0


def limit_process(memory: int) -> None:
    """Bounds memory, and takes away what no check needs: written files, core dumps, many files."""
    # Traffic comes first where a processor is short.
    os.nice(_NICE)
    sys.setrecursionlimit(_RECURSION)
    for kind, limit in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (bound, bound))


def serve(requests: BinaryIO, answers: BinaryIO, depth: int, before: Callable[[], None]) -> None:
    """Answers request after request; ends where the input ends, within a request too.

    ``before`` is called before each check.
    """
    send(answers, {"errors": [], "unchecked": ""})
    while len(head := requests.read(8)) == 8:
        schema_length = int.from_bytes(head[:4], "big")
        document_length = int.from_bytes(head[4:], "big")
        schema = requests.read(schema_length)
        document = requests.read(document_length)
        if len(schema) < schema_length or len(document) < document_length:
            return
        before()
        send(answers, answer(schema, document, depth))


def renew_cpu_limit(seconds: int) -> None:
    """A check that hangs ends itself, should whoever would kill it be gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime) + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def send(answers: BinaryIO, message: Mapping[str, Any]) -> None:
    data = json.dumps(message).encode("ascii")
    answers.write(len(data).to_bytes(4, "big") + data)
    answers.flush()


def answer(schema: bytes, document: bytes, depth: int) -> dict[str, Any]:
    """The answer to one request: the first errors, or why there is no result."""
    try:
        validator = compiled(schema, depth)
        errors = list(itertools.islice(_errors(validator, document, depth), MAX_ERRORS))
    except UncheckedError as error:
        return {"errors": [], "unchecked": str(error)}
    except MemoryError:
        compiled.cache_clear()
        return {"errors": [], "unchecked": "memory"}
    except Exception:  # noqa: BLE001  a library on hostile input; what it could not check is said
        return {"errors": [], "unchecked": "engine-error"}
    return {"errors": errors, "unchecked": ""}


@functools.lru_cache(maxsize=_CACHED)
def compiled(schema: bytes, depth: int) -> Validator:
    """The validator of a schema that is valid itself; raises UncheckedError."""
    loaded = _loaded(schema, depth)
    if not isinstance(loaded, dict | bool):
        raise UncheckedError("bad-schema")
    try:
        draft: Any = validator_for(loaded, default=jsonschema.Draft202012Validator)
        draft.check_schema(loaded)
    except (SchemaError, TypeError, RecursionError):
        raise UncheckedError("bad-schema") from None
    # The registry is empty and has no way to retrieve: a $ref can't make this process fetch
    # anything.
    validator: Validator = _exact(draft)(loaded, registry=Registry())
    return validator


@functools.cache
def _exact(draft: Any) -> Any:
    return extend(draft, {"multipleOf": _multiple_of})  # type: ignore[no-untyped-call]


def _multiple_of(
    validator: Validator, divisor: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    """Decimal arithmetic, as JSON numbers are decimal: 0.3 is a multiple of 0.1."""
    if not validator.is_type(instance, "number"):
        return
    value, step = Decimal(repr(instance)), Decimal(repr(divisor))
    if not value.is_finite() or value.adjusted() - step.adjusted() > 500:
        raise UncheckedError("too-large")
    # Scaled to integers, which have no precision to lose.
    scale = max(0, -_exponent(value), -_exponent(step))
    if int(value.scaleb(scale)) % int(step.scaleb(scale)):
        yield ValidationError("not a multiple")


def _exponent(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


def _errors(validator: Validator, document: bytes, depth: int) -> Iterator[list[str]]:
    instance = _loaded(document, depth)
    try:
        for error in validator.iter_errors(instance):
            # A schema that is `false` fails as a whole and has no keyword to name.
            yield [pointer(error.absolute_path), str(error.validator or "false")]
    except Unresolvable as error:
        dangling = isinstance(error.__cause__, _DANGLING)
        raise UncheckedError("bad-schema" if dangling else "remote-reference") from None
    except RecursionError:
        # Both texts are shallow, so it is a $ref that leads back to itself.
        raise UncheckedError("bad-schema") from None


def _loaded(text: bytes, depth: int) -> Any:
    try:
        value = json.loads(text)
    except (RecursionError, ValueError):
        # The pool wrote the text, so it is JSON: what fails is a number or a nesting beyond Python.
        raise UncheckedError("too-large") from None
    if deeper(value, depth):
        raise UncheckedError("too-large")
    return value


def deeper(value: Any, depth: int) -> bool:
    """Whether arrays and objects nest in more than ``depth`` levels."""
    level: list[Any] = [value]
    for _ in range(depth + 1):
        level = [child for holder in level for child in _children(holder)]
        if not level:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def pointer(path: Iterable[str | int]) -> str:
    """The JSON Pointer (RFC 6901) of a path, at most MAX_POINTER characters."""
    text = ""
    for token in path:
        step = "/" + str(token).replace("~", "~0").replace("/", "~1")
        if len(text) + len(step) > MAX_POINTER:
            break
        text += step
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
