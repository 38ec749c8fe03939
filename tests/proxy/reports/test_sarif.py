"""The SARIF report keeps to what the schema of SARIF 2.1.0 demands, whatever stands in it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest

from teeline.proxy.inputs.items import Problem
from teeline.proxy.reports.model import Report, Style
from teeline.proxy.reports.sarif import render
from teeline.validators.model import Severity
from tests.proxy.reports.examples_of_findings import EVIL, evil, reported, violation

LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"text": {"type": "string", "minLength": 1}, "markdown": {"type": "string"}},
    "required": ["text"],
}
ARTIFACT = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"uri": {"type": "string", "minLength": 1}, "uriBaseId": {"type": "string"}},
    "required": ["uri"],
}
LOCATION = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "physicalLocation": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "artifactLocation": ARTIFACT,
                "region": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {"startLine": {"type": "integer", "minimum": 1}},
                    "required": ["startLine"],
                },
            },
            "required": ["artifactLocation", "region"],
        },
        "logicalLocations": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "fullyQualifiedName": {"type": "string"},
                    "kind": {"type": "string"},
                },
            },
        },
    },
    "required": ["physicalLocation"],
}
RULE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string"},
        "shortDescription": MESSAGE,
        "fullDescription": MESSAGE,
        "help": MESSAGE,
        "defaultConfiguration": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"level": LEVEL},
        },
        "properties": {
            "type": "object",
            "properties": {
                "tags": {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
            },
        },
    },
    "required": ["id", "shortDescription", "fullDescription", "help", "defaultConfiguration"],
}
RESULT = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": MESSAGE,
        "locations": {"type": "array", "minItems": 1, "items": LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "properties": {"type": "object"},
    },
    "required": ["message", "ruleId", "ruleIndex", "level", "locations"],
}
INVOCATION = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "executionSuccessful": {"type": "boolean"},
        "toolExecutionNotifications": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "level": LEVEL,
                    "message": MESSAGE,
                    "locations": {"type": "array", "items": LOCATION},
                },
                "required": ["message"],
            },
        },
    },
    "required": ["executionSuccessful"],
}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string", "minLength": 1},
                                    "version": {"type": "string"},
                                    "rules": {"type": "array", "uniqueItems": True, "items": RULE},
                                },
                                "required": ["name"],
                            }
                        },
                        "required": ["driver"],
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "invocations": {"type": "array", "items": INVOCATION},
                    "results": {"type": "array", "items": RESULT},
                },
                "required": ["tool", "results"],
            },
        },
    },
    "required": ["version", "runs"],
}
"""The parts of sarif-schema-2.1.0.json that this report uses; it forbids members that SARIF has not."""


def run(report: Report, **style: bool) -> dict[str, Any]:
    document = json.loads(render(report, Style(**style)))
    jsonschema.validate(document, SCHEMA)
    (only,) = document["runs"]
    rules = only["tool"]["driver"]["rules"]
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert isinstance(only, dict)
    return only


def test_a_finding_is_a_result_with_its_rule_its_place_and_help() -> None:
    whole = run(Report([reported(violation(), line=7)], {}))
    (rule,), (result,) = whole["tool"]["driver"]["rules"], whole["results"]
    assert rule["id"] == "chat.bad"
    assert rule["defaultConfiguration"] == {"level": "error"}
    assert rule["help"]["text"].startswith("A client breaks.\n\nFix: Mend it")
    assert result["level"] == "error"
    assert result["message"]["text"] == (
        "one: It is bad. (response, event 3, byte 1204, /choices/0/delta)"
    )
    (location,) = result["locations"]
    assert location["physicalLocation"] == {
        "artifactLocation": {"uri": "in/a.json", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 7},
    }
    assert location["logicalLocations"] == [
        {"fullyQualifiedName": "one/response/event 3/choices/0/delta", "kind": "element"}
    ]
    assert (result["properties"]["byte"], result["properties"]["count"]) == (1204, 2)


def test_a_rule_is_described_once_and_a_lowered_finding_has_its_own_level() -> None:
    lowered = violation("chat.bad")
    lowered.severity = Severity.WARN
    whole = run(Report([reported(violation()), reported(lowered)], {}))
    assert len(whole["tool"]["driver"]["rules"]) == 1
    assert [result["level"] for result in whole["results"]] == ["error", "warning"]


def test_info_findings_are_notes_on_demand() -> None:
    report = Report([reported(violation("chat.i", Severity.INFO))], {})
    assert run(report)["results"] == []
    assert [r["level"] for r in run(report, show_info=True)["results"]] == ["note"]


def test_braces_are_no_placeholders() -> None:
    whole = run(Report([reported(violation(text="{0} and {}"))], {}))
    assert "{{0}} and {{}}" in whole["results"][0]["message"]["text"]
    assert "{{always}}" in whole["tool"]["driver"]["rules"][0]["help"]["text"]


@pytest.mark.parametrize(
    ("file", "uri"),
    [
        ("a b#c?.json", "a%20b%23c%3F.json"),
        ("/tmp/x.json", "file:///tmp/x.json"),
        ("./in/x.json", "in/x.json"),
        ("", "-"),
        ("caf\u00e9.json", "caf%C3%A9.json"),
        ("\udc80.json", "%80.json"),
    ],
)
def test_a_file_is_a_uri_reference(file: str, uri: str) -> None:
    (result,) = run(Report([reported(violation(), file=file)], {}))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_the_same_finding_has_the_same_fingerprint_in_another_run() -> None:
    def fingerprint(**changes: Any) -> Any:
        (result,) = run(Report([reported(violation(), **changes)], {}))["results"]
        return result["partialFingerprints"]

    assert fingerprint() == fingerprint(line=9)
    assert fingerprint() != fingerprint(name="two")


def test_what_could_not_be_checked_is_a_notification_and_the_run_no_success() -> None:
    whole = run(Report([], {}, problems=[Problem("x.json", "not JSON")]))
    (invocation,) = whole["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == "not JSON"
    assert run(Report([], {}))["invocations"][0]["executionSuccessful"] is True


def test_hints_are_properties_of_a_result() -> None:
    (result,) = run(Report([reported(violation("chat.gemini-shape"))], {}))["results"]
    assert "native Gemini API" in result["properties"]["hints"][0]


def test_nothing_that_others_wrote_breaks_the_document() -> None:
    text = render(evil(), Style())
    assert text.isascii()
    assert not any(c in text for c in "\x1b\x00\x07\x7f\r")
    (result,) = run(evil())["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert urlsplit(uri).path == uri
    assert unquote(uri, errors="surrogateescape") == EVIL
