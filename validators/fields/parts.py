"""What lies inside Responses output items: content parts and annotations (OpenAI API specification 2.3.0).

What belongs here: the objects below an item. What doesn't: the items (items.py), and which part may stand
where (checks/items.py).
"""

from __future__ import annotations

from collections.abc import Mapping

from teeline.validators.fields.table import ARRAY, INTEGER, STRING, Table, required

MESSAGE_PARTS: Mapping[str, Table] = {
    "output_text": Table(
        "output_text",
        (
            required("text", STRING, "responses.text-type"),
            required("annotations", ARRAY, "responses.annotations-missing"),
            required("logprobs", ARRAY, "responses.part-logprobs-missing"),
        ),
    ),
    "refusal": Table("refusal", (required("refusal", STRING, "responses.refusal-type"),)),
}
"""The parts of an output message by ``type``."""

FOREIGN_PARTS = frozenset({"text", "input_text"})
"""What chat and the input call the text of a message: clients pass over it in an answer."""

_SHAPE = "responses.annotation-shape"
_FILE = required("file_id", STRING, _SHAPE)
_FILE_NAME = required("filename", STRING, _SHAPE)
_INDEX = required("index", INTEGER, _SHAPE)
_SPAN = (
    required("start_index", INTEGER, _SHAPE),
    required("end_index", INTEGER, _SHAPE),
)

ANNOTATIONS: Mapping[str, Table] = {
    "file_citation": Table("file_citation", (_FILE, _INDEX, _FILE_NAME)),
    "url_citation": Table(
        "url_citation",
        (required("url", STRING, _SHAPE), *_SPAN, required("title", STRING, _SHAPE)),
    ),
    "container_file_citation": Table(
        "container_file_citation",
        (required("container_id", STRING, _SHAPE), _FILE, *_SPAN, _FILE_NAME),
    ),
    "file_path": Table("file_path", (_FILE, _INDEX)),
}
"""Annotations by ``type``; a type that is not here is a newer one, and nothing is known of it."""
