"""What one upstream showed in earlier exchanges, for the rules that look beyond a single one.

What belongs here: a bounded memory of facts, kept by whoever makes the inspectors (one an upstream; none
for files that have nothing to do with each other). What doesn't: the rules (checks/identity.py).

Clients share an upstream and not what it shows them, so that facts which depend on the key are kept for
the key's ``Client``. No key is kept, and no id's exchange.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from teeline.validators.heads import names_of
from teeline.validators.likeness import Likenesses
from teeline.validators.model import Headers
from teeline.validators.operation import Operation

Client = int
"""Tells clients apart within this process; says nothing about their keys."""

ANSWERS: Final = 4096
"""Ids that are remembered; the one that was not met for longest goes first."""
CLIENTS: Final = 64
"""Clients whose list of models is remembered."""
MODELS: Final = 10_000
"""Models of one list; a longer list is not kept, since a part of it would say nothing."""
LONGEST_ID: Final = 256
"""Characters of an id; longer ones are not compared."""


def client_of(headers: Headers) -> Client:
    """The client that a request's fields are from, as far as its key tells."""
    return hash(tuple(headers[position][1] for position in names_of(headers).keys))


class Made(NamedTuple):
    """How new the id of a new answer is."""

    before: bool
    """An earlier answer had it."""
    in_a_row: int
    """The last so many answers had it, this one included."""


class _Answer(NamedTuple):
    """What is known of an answer's id: who asked the upstream to keep it, or not to; None for neither."""

    kept: bool | None = None
    client: Client = 0


_NEW: Final = _Answer()
_MADE_NEW: Final = Made(before=False, in_a_row=1)


class History:
    """What is remembered of one upstream. Every method takes time that does not grow with it."""

    def __init__(self, answers: int = ANSWERS, clients: int = CLIENTS) -> None:
        self._most_answers = answers
        self._most_clients = clients
        self._answers: OrderedDict[str, _Answer] = OrderedDict()
        self._last = ("", 0)
        self._models: OrderedDict[Client, frozenset[str]] = OrderedDict()
        self.answers: Mapping[Operation, Likenesses[Any]] = {Operation.CHAT: Likenesses()}
        """Whole answers that the full check accepted, by the operations that remember any
        (checks/document.py)."""
        self.streams: Mapping[bool, Likenesses[Any]] = {True: Likenesses(), False: Likenesses()}
        """Clean chat streams by their first chunks: those with usage, and those without
        (checks/streamknown.py)."""

    # -- answers ----------------------------------------------------------------------------------------

    def made(self, answer_id: str) -> Made:
        """Takes the id of a new answer in."""
        if len(answer_id) > LONGEST_ID:
            return Made(before=False, in_a_row=1)
        last, times = self._last
        self._last = (answer_id, times + 1 if answer_id == last else 1)
        answers = self._answers
        if answer_id in answers:
            answers.move_to_end(answer_id)
            return Made(True, self._last[1])
        answers[answer_id] = _NEW
        if len(answers) > self._most_answers:
            answers.popitem(last=False)
        return _MADE_NEW if answer_id != last else Made(False, times + 1)

    def knows(self, answer_id: str) -> bool:
        """Whether an earlier answer had this id, as far back as is remembered."""
        return answer_id in self._answers

    def made_new(self, answer_id: str) -> None:
        """Takes in the id of an answer that it does not know; at most LONGEST_ID characters."""
        self._last = (answer_id, 1)
        answers = self._answers
        answers[answer_id] = _NEW
        if len(answers) > self._most_answers:
            answers.popitem(last=False)

    def keep(self, answer_id: str, client: Client, *, kept: bool) -> None:
        """An answer that was given whole was to be kept for later, or not to be."""
        if answer_id in self._answers:
            self._answers[answer_id] = _Answer(kept, client)

    def kept(self, answer_id: str, client: Client) -> bool | None:
        """Whether this client asked for an answer to be kept; None where it is not known."""
        answer = self._answers.get(answer_id)
        return answer.kept if answer is not None and answer.client == client else None

    def deleted(self, answer_id: str) -> None:
        """An answer was deleted: whether it was kept says nothing any more."""
        if answer_id in self._answers:
            self._answers[answer_id] = _NEW

    # -- models -----------------------------------------------------------------------------------------

    def list_models(self, models: Iterable[str], client: Client) -> None:
        """Takes the last whole list of models in that this client was shown."""
        listed = frozenset(models)
        self._models.pop(client, None)
        if len(listed) <= MODELS:
            self._models[client] = listed
        if len(self._models) > self._most_clients:
            self._models.popitem(last=False)

    @property
    def lists(self) -> int:
        """How many clients' lists are remembered."""
        return len(self._models)

    def listed_models(self, client: Client) -> frozenset[str] | None:
        """The models that this client last saw the upstream list; None where it saw no list."""
        return self._models.get(client)
