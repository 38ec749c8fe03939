"""The public suite's formats as schemas of our own, by their description: members, types, words.

What belongs here: recipes, plans, results. What doesn't: what is in them (the tests).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator

TEXT = {"type": "string", "minLength": 1}
WORDS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
COUNT = {"type": "integer", "minimum": 0}
TERMINAL = {"enum": ["success", "error", "cancelled"]}
STATUS = {"enum": ["mandatory", "optional", "experimental", "deprecated"]}


def closed(required: Mapping[str, Any], **optional: Any) -> dict[str, Any]:
    """An object of these members and no others."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **optional},
        "additionalProperties": False,
    }


HEAD = {
    "profile": {"const": "openai-compatible"},
    "schema_version": {"const": "openai-compatible/1"},
}
EXPECTED = closed(
    {"type": TEXT}, optional={"type": "boolean"}, min_count=COUNT, fields={"type": "object"}
)
REQUEST = closed({"body": {"type": "object"}}, nnrp={"type": "object"})
EXPECT = closed({"events": {"type": "array", "items": EXPECTED}, "terminal": TERMINAL})
RECIPE = closed(
    {**HEAD, "id": TEXT, "operation": TEXT, "request": REQUEST, "expect": EXPECT},
    required_capabilities=WORDS,
    status=STATUS,
    parameters={"type": "object", "additionalProperties": {"type": "string"}},
)
CASE = closed(
    {
        "id": TEXT,
        "operation": TEXT,
        "status": STATUS,
        "request": {"type": "object"},
        "expect": {"type": "object"},
    },
    required_capabilities=WORDS,
)
SUMMARY = closed(
    dict.fromkeys(("selected_cases", "not_claimed_cases", "informational_cases"), COUNT)
)
STATUSES = closed(
    {f"{word}_cases": COUNT for word in ("mandatory", "optional", "experimental", "deprecated")}
)
ROW = closed(
    {
        "feature": TEXT,
        "required_capabilities": WORDS,
        "summary": SUMMARY,
        "statuses": STATUSES,
        "case_ids": WORDS,
    }
)
ARTIFACTS = closed({"results_path": {"type": "string"}, "evidence_dir": {"type": "string"}})
PLAN = closed(
    {
        **HEAD,
        "adapter": TEXT,
        "artifacts": ARTIFACTS,
        "coverage_matrix": {"type": "array", "items": ROW},
        "cases": {"type": "array", "items": CASE},
    }
)
EVENT = {"type": "object", "required": ["type"], "properties": {"type": {"type": "string"}}}
RESULT = closed(
    {
        "id": {"type": "string"},
        "outcome": {"enum": ["passed", "failed", "skipped"]},
        "terminal": TERMINAL,
    },
    events={"type": "array", "items": EVENT},
    diagnostics={"type": "object"},
    message={"type": "string"},
)
RESULTS = closed({**HEAD, "adapter": TEXT, "results": {"type": "array", "items": RESULT}})


def validate(document: Any, schema: Mapping[str, Any]) -> None:
    """jsonschema.ValidationError where a document is not of the form."""
    Draft202012Validator(schema).validate(document)
