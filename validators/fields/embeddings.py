"""Embeddings: the list of ``POST /embeddings`` and its elements (OpenAI API specification 2.3.0).

The vectors have no table: a row a number would cost more than the numbers; see checks/embeddings.py.
"""

from __future__ import annotations

from teeline.validators.fields.table import ANY, INTEGER, STRING, Table, optional, required

EMBEDDING = Table(
    "data[]",
    (
        required("index", INTEGER, "embeddings.index-wrong"),
        optional("embedding", ANY),
        required(
            "object",
            STRING,
            "embeddings.object-wrong",
            values=frozenset({"embedding"}),
            outside="embeddings.object-wrong",
        ),
    ),
)

EMBEDDINGS = Table(
    "embeddings",
    (
        # data: checks/embeddings.py, since an empty one is as bad as none
        optional("data", ANY),
        required("model", STRING, "embeddings.model-type"),
        required(
            "object",
            STRING,
            "embeddings.object-wrong",
            values=frozenset({"list"}),
            outside="embeddings.object-wrong",
        ),
        optional("usage", ANY),
    ),
)
ENCODINGS = frozenset({"float", "base64"})
"""Others (int8, binary) are of vendors, and what they mean is not written down here."""
