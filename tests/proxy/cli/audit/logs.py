"""A folder with a log, for the tests of commands, and running one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from teeline.proxy.audit.bodies import BodyStore, Keep
from teeline.proxy.audit.record import Origin
from teeline.proxy.capture import Budget, Recording
from teeline.proxy.cli.audit import command
from teeline.validators.events import RequestHead, ResponseHead
from teeline.validators.model import Place, Severity, Side, TimelineEntry, Unit
from tests.proxy.audit.logs import writer
from tests.proxy.samples import START, exchange, violation

PLANTED = "xyzzy-planted-content"
IDS = [f"{number:032x}" for number in range(0x100, 0x106)]


def audit(*arguments: object, **options: Any) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], **options)


def answer(*arguments: object) -> Any:
    """What a command says as JSON."""
    result = audit(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def recording() -> Recording:
    made = Recording(1000, Budget(10_000))
    made.request_head(RequestHead("POST", "/v1/chat/completions", ()))
    made.request_body(f'{{"model": "m", "content": "{PLANTED}"}}'.encode())
    made.response_head(ResponseHead(200, (("Content-Type", "text/event-stream"),)))
    made.response_body(b"data: [DONE]\n\n")
    return made


def log(folder: Path) -> Path:
    """Six exchanges of two relays; the first one fails, with its bodies, the second one warns."""
    place = Place(Side.RESPONSE, Unit.EVENT, 2, 40, "/choices/0")
    timeline = [
        TimelineEntry(START, "request", 0, 0),
        TimelineEntry(START + 0.2, "head", 0, 200),
        TimelineEntry(START + 0.3, "read", 1, 40),
        TimelineEntry(START + 0.4, "read", 2, 44),
        TimelineEntry(START + 0.4, "violation", 2, 0),
        TimelineEntry(START + 1.5, "complete", 0, 0),
    ]
    made = writer(folder)
    made._origin = Origin("1", "r", (), (("my-relay", "https://relay.example/v1"),))
    made._bodies = BodyStore(folder, Keep(1 << 30, 1e9))
    made.start()
    made.append(
        [
            exchange(
                violation(place=place, count=3),
                id=IDS[0],
                request_id="req-a",
                client_key="0123456789abcdef",
                timeline=timeline,
                recording=recording(),
            ),
            exchange(violation("chat.id-missing", Severity.WARN), id=IDS[1], status=429),
            *(exchange(id=each, upstream="other") for each in IDS[2:]),
        ]
    )
    made.close()
    return folder
