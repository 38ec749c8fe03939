"""Models: the list of ``GET /models`` and the object of ``GET /models/{model}`` (specification 2.3.0)."""

from __future__ import annotations

from teeline.validators.fields.table import ANY, STRING, WHOLE, Field, Table, optional, required


def _model(name: str, identity: str, kind: str) -> Table:
    """A model; ``identity`` and ``kind`` are the rules of its ``id`` and its ``object``."""
    return Table(
        name,
        (
            required("id", STRING, identity, empty=identity),
            Field("created", WHOLE, absent="models.created-missing", wrong="models.created-type"),
            required("object", STRING, kind, values=frozenset({"model"}), outside=kind),
            Field(
                "owned_by", STRING, absent="models.owned-by-missing", wrong="models.owned-by-type"
            ),
            optional("shutdown_date", ANY),
        ),
    )


LISTED_MODEL = _model("data[]", "models.item-not-object", "models.item-object-wrong")
RETRIEVED_MODEL = _model("model", "models.retrieve-shape", "models.retrieve-shape")

MODEL_LIST = Table(
    "models",
    (
        required(
            "object",
            STRING,
            "models.object-wrong",
            values=frozenset({"list"}),
            outside="models.object-wrong",
        ),
        # data: checks/models.py, since null has a rule of its own
        optional("data", ANY),
    ),
)
PAGINATION = ("has_more", "first_id", "last_id", "success")
"""Members that other lists of the API and gateways have; a list of models comes whole."""
