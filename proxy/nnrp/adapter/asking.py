"""Asking an adapter in this process what it would answer a client.

What belongs here: an answer that is kept instead of sent. What doesn't: what is asked (discovery.py).
"""

from __future__ import annotations

from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.discovery import Ask
from teeline.proxy.nnrp.observed import Observed
from teeline.proxy.nnrp.serverreply import Reply
from teeline.proxy.nnrp.submit import Submit


class _Kept:
    """Where packets would go: nowhere, since what they hold is kept before."""

    def write(self, packet: bytes) -> None:
        return

    @property
    def writable(self) -> bool:
        return True

    async def drain(self) -> None:
        return

    def close(self) -> None:
        return

    def abort(self) -> None:
        return


class _Heard(Reply):
    """The answer to one operation, kept."""

    def __init__(self, submit: Submit) -> None:
        super().__init__(_Kept(), submit, 0.0)
        self.observed = Observed()

    async def event(self, event: bytes) -> None:
        await super().event(event)
        self.observed.hear(event)

    def end(self, document: bytes | None, status: int) -> None:
        super().end(document, status)
        self.observed.conclude(document or b"", "RESULT_PUSH")


def asking(adapter: Adapter) -> Ask:
    """A way to ask an adapter."""

    async def ask(envelope: bytes) -> Observed:
        submit = Submit(1, 1, 1, envelope)
        heard = _Heard(submit)
        await adapter.serve(submit, heard)
        return heard.observed

    return ask
