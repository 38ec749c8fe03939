"""What can be set is said in one place; schema, page and file of defaults can't differ from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from teeline.config.keys import ROOT, Key, Section
from teeline.config.load import load_file
from teeline.config.reference import Item, as_yaml, default_yaml, items, schema
from teeline.config.values import SCHEMAS
from tests.config.test_load import DEFAULT_YAML

ITEMS = {".".join(item.path): item for item in items()}
VALIDATOR = Draft202012Validator(schema())


def readers(keys: Any = ROOT) -> Iterator[Key]:
    for key in keys.values():
        if isinstance(key, Section):
            yield from readers(key.keys)
        else:
            yield key


def refused(text: str) -> bool:
    return not VALIDATOR.is_valid(yaml.safe_load(text))


def test_every_way_to_read_a_value_has_a_schema() -> None:
    assert set(readers()) == set(SCHEMAS)


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())


def test_the_file_of_defaults_is_valid() -> None:
    assert not refused(default_yaml())


def test_every_key_stands_in_the_file_of_defaults() -> None:
    """With its default, or commented out with an example."""
    missing = [name for name, item in ITEMS.items() if not item.example]
    assert missing == []


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_a_default_is_valid_where_it_stands(item: Item) -> None:
    if item.default:
        value = yaml.safe_load(item.default)
        # What a section doesn't have is not set in it either.
        assert value is None or Draft202012Validator(dict(item.schema)).is_valid(value)


@pytest.mark.parametrize(
    "text",
    [
        "upstreams: [{url: 'https://h'}]",
        "upstreams: [{url: 'http://h/v1', timeouts: {idle: null, connect: 0.5}, proxy: env}]",
        "admin: {listen: off}",
        "admin:",
        "workers: auto",
        "rules: {select: [chat], severity: {chatstream.done-missing: warn}}",
        "clients: {connections: null, head_timeout: 3}",
    ],
)
def test_what_can_be_read_is_valid(text: str) -> None:
    assert not refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "upstream: []",
        "upstreams: [{name: a}]",
        "upstreams: [{url: 'ftp://h'}]",
        "limits: {body: 0}",
        "limits: {body: 1.5}",
        "clients: {head_timeout: 0}",
        "workers: many",
        "rules: {severity: {chat: loud}}",
        "capture: {when: sometimes}",
        "listen_tls: {key: server.key}",
        "audit: {enabled: 1}",
    ],
)
def test_what_an_editor_can_see_is_refused(text: str) -> None:
    assert refused(text)


def test_words_and_examples_come_from_the_file_of_defaults() -> None:
    assert ITEMS["upstreams.[].url"].example == "https://relay.example/v1"
    assert ITEMS["upstreams.[].timeouts.idle"].about == "between two pieces of the answer"
    assert ITEMS["limits.body"].default == "16777216"
    assert load_file(str(DEFAULT_YAML)).value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (10.0, "10"),
        (0.5, "0.5"),
        (("a", "b"), "[a, b]"),
        ({}, "{}"),
        ("off", "'off'"),
    ],
)
def test_values_are_written_as_they_would_be_read(value: Any, text: str) -> None:
    assert as_yaml(value) == text
