"""``teeline healthcheck``: asks a running proxy whether it is well, for containers.

What belongs here: one request and an exit code. What doesn't: what well is (admin.py, status.py).
"""

from __future__ import annotations

import http.client
from typing import Final
from urllib.parse import urlsplit

import click

from teeline.proxy.cli import CANT_RUN

DEFAULT: Final = "http://127.0.0.1:8788/healthz"
UNWELL: Final = 1
_SECONDS = 3.0
_WORDS = 200


@click.command("healthcheck")
@click.option(
    "--url",
    default=DEFAULT,
    show_default=True,
    metavar="URL",
    envvar="TEELINE_HEALTHCHECK_URL",
    help="The admin port's /healthz, or its /readyz.",
)
@click.pass_context
def command(ctx: click.Context, url: str) -> None:
    """Ask a running proxy whether it is well.

    Exit status: 0 well, 1 not, 2 wrong usage, 3 nothing answers.
    """
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise click.UsageError("--url is an http:// URL of the admin port")
    try:
        port = parts.port or 80
    except ValueError:
        raise click.UsageError("--url has a port that is none") from None
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=_SECONDS)
    try:
        connection.request("GET", parts.path or "/healthz")
        answer = connection.getresponse()
        text = answer.read(_WORDS).decode("utf-8", "replace")
    except (OSError, http.client.HTTPException) as error:
        # No answer, or none of HTTP: the type says which, the text may quote what was sent.
        click.echo(f"teeline healthcheck: no answer ({type(error).__name__})", err=True)
        ctx.exit(CANT_RUN)
    finally:
        connection.close()
    said = " ".join(word for word in text.split() if word.isprintable())
    click.echo(f"{answer.status} {said}", err=answer.status != http.HTTPStatus.OK)
    ctx.exit(0 if answer.status == http.HTTPStatus.OK else UNWELL)
