"""What a running NNRP server offers, for ``teeline nnrp capabilities``: asked live, checked and shown.

What belongs here: the live half of these commands and their output. What doesn't: documents in files
(proxy/cli/nnrp.py), the exchange with the server (proxy/nnrp/opening.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from teeline.config.model import UpstreamTLS
from teeline.proxy.nnrp.opening import Opening, open_once
from teeline.proxy.text import printable
from teeline.proxy.tls import towards_upstream
from teeline.validators.model import Ended, Exchange, Side
from teeline.validators.nnrp.inspector import CONNECTION, End, NnrpInspector

NO_DOCUMENT: Final = (
    "NNRP has no message for the capability document of openai-compatible/1; its file is the only place "
    "that says which operations there are."
)
_TIMEOUT: Final = 10.0


def is_address(text: str) -> bool:
    """Whether an argument names a server instead of a file."""
    return "://" in text or text.startswith("unix:")


def offered(address: str, ca: str | None) -> Opening:
    """What the server there offers. Raises OpeningError, TLSFilesError, ValueError."""
    secured = address.startswith(("nnrps://", "tls://", "wss://"))
    trusted = Path(ca) if ca is not None else None
    context = towards_upstream(UpstreamTLS(ca=trusted), alpn=()) if secured else None
    return asyncio.run(open_once(address, context, _TIMEOUT))


def inspected(opening: Opening, at: float) -> Exchange:
    """The opening as an exchange, with what the rules say of both sides."""
    exchange = Exchange(method="NNRP", path="opening", operation=CONNECTION)
    inspector = NnrpInspector(Exchange, connection=exchange, timed=False)
    for side, data in opening.passed:
        inspector.feed(side, data, at)
    for side in Side:
        inspector.finish(side, at, End.UNKNOWN)
    inspector.close(at, Ended.COMPLETE)
    exchange.ended = Ended.COMPLETE
    return exchange


def lines(opening: Opening) -> Iterator[str]:
    """What a server offers, for people."""
    hello, session = opening.hello, opening.session
    yield f"protocol    NNRP/{hello.version}, wire format {hello.wire_format}"
    yield f"payloads    {', '.join(hello.kinds) or 'none'}"
    profiles = [str(bit) for bit in range(32) if hello.profiles >> bit & 1]
    yield f"profiles    {', '.join(profiles) or 'none'}"
    yield f"limits      {hello.max_body} bytes a body, {hello.frames} operations at once"
    if not session.session:
        words = f": {printable(opening.refusal, 200)}" if opening.refusal else ""
        yield f"session     refused, status {session.status}, error {session.error}{words}"
        return
    yield (
        f"session     profile {session.profile}, schema {session.schema:#x} version "
        f"{session.schema_version}, {session.granted} of {session.most} operations at once, "
        f"lease {session.lease_ms} ms"
    )


def as_object(opening: Opening) -> dict[str, Any]:
    """The same for programs."""
    hello = opening.hello._asdict() | {"payload_kinds": opening.hello.kinds}
    session = opening.session._asdict() if opening.session.session else None
    return {"v": 1, "hello": hello, "session": session, "refusal": opening.refusal or None}


def as_json(opening: Opening) -> str:
    return json.dumps(as_object(opening))
