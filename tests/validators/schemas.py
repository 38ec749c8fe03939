"""Answers the schema checks of an inspector at once, with jsonschema itself, as the pool would."""

from __future__ import annotations

from collections.abc import Iterable

import jsonschema
import referencing

from teeline.validators.events import Output, SchemaCheck, SchemaError, SchemaResult
from teeline.validators.inspector import Inspector


def answer_schema_checks(
    inspector: Inspector, outputs: Iterable[Output], at: float
) -> list[Output]:
    """Gives each check its result; what came to light through the results."""
    more: list[Output] = []
    for output in outputs:
        if isinstance(output, SchemaCheck):
            more.extend(inspector.schema_result(output.ticket, _result(output), at))
    return more


def _result(check: SchemaCheck) -> SchemaResult:
    """The errors, or why there are none: a hostile schema is no schema, or breaks the engine."""
    validator = jsonschema.Draft202012Validator
    try:
        validator.check_schema(check.schema)
    except (jsonschema.SchemaError, TypeError, RecursionError):
        return SchemaResult(unchecked="bad-schema")
    try:
        errors = tuple(
            SchemaError("".join(f"/{part}" for part in error.absolute_path), str(error.validator))
            for error in validator(check.schema, registry=referencing.Registry()).iter_errors(
                check.document
            )
        )
    except Exception:  # noqa: BLE001  a library on hostile input, as in the pool
        return SchemaResult(unchecked="engine-error")
    return SchemaResult(errors)
