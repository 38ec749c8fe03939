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
    try:
        return _validated(check)
    except Exception:  # noqa: BLE001  a schema of a peer may break jsonschema in any way
        return SchemaResult(unchecked="bad-schema")


def _validated(check: SchemaCheck) -> SchemaResult:
    validator = jsonschema.Draft202012Validator(check.schema, registry=referencing.Registry())
    try:
        validator.check_schema(check.schema)
        errors = tuple(
            SchemaError("".join(f"/{part}" for part in error.absolute_path), str(error.validator))
            for error in validator.iter_errors(check.document)
        )
    except Exception:  # noqa: BLE001  a schema of a hostile request, as for the pool
        return SchemaResult(unchecked="bad-schema")
    return SchemaResult(errors)
