"""``teeline nnrp adapter`` and ``teeline nnrp capabilities generate``: an OpenAI-compatible server over NNRP.

What belongs here: arguments, the key's way in, output and exit codes. What doesn't: the adapter itself
(proxy/nnrp/adapter), its server (proxy/nnrp/server.py).
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import signal
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from teeline.config.model import ListenTLS, UpstreamTLS
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.cli.nnrpfiles import declared_in
from teeline.proxy.nnrp.adapter.asking import asking
from teeline.proxy.nnrp.adapter.service import Adapter
from teeline.proxy.nnrp.adapter.upstream import Upstream, UpstreamOptions
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.discovery import Discovered, discover
from teeline.proxy.nnrp.server import NnrpServer, ServerError
from teeline.proxy.nnrp.serverlimits import ServerLimits
from teeline.proxy.text import printable
from teeline.proxy.tls import TLSFilesError, towards_clients, towards_upstream
from teeline.validators.fields.nnrp import OPERATIONS
from teeline.validators.nnrp.capabilities import FORMS

DRAIN: Final = 10.0
"""Seconds that operations have to end when the adapter stops."""
_MIB: Final = 1024 * 1024


def _upstream_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which server is asked, and as whom."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(min=0.1),
            default=600.0,
            show_default=True,
            metavar="SECONDS",
            help="For a whole answer of the server.",
        ),
        click.option("--upstream-ca", metavar="FILE", help="Whom to trust for an https:// server."),
        click.option(
            "--api-key-env",
            metavar="NAME",
            help="The environment variable with the server's key. It is sent nowhere else.",
        ),
        click.option(
            "--upstream",
            required=True,
            metavar="URL",
            help="The server's base URL, with or without /v1.",
        ),
    ):
        function = option(function)
    return function


def _upstream(options: dict[str, Any]) -> UpstreamOptions:
    """Raises click.UsageError, TLSFilesError."""
    name = options["api_key_env"]
    key = os.environ.get(name, "") if name else ""
    if name and not key:
        raise click.UsageError(f"{printable(name)} is not set")
    if not key.isascii() or not key.isprintable():
        raise click.UsageError(f"{printable(name)} holds no key that can be sent")
    ca = options["upstream_ca"]
    tls = towards_upstream(UpstreamTLS(ca=Path(ca) if ca else None))
    return UpstreamOptions(options["upstream"], key, options["timeout"], tls=tls)


# -- adapter -----------------------------------------------------------------------------------------


@click.command(name="adapter", short_help="Serve an OpenAI server over NNRP.")
@click.option(
    "--listen",
    required=True,
    metavar="ADDR",
    help="HOST:PORT or unix:PATH, each for WebSocket, too.",
)
@_upstream_options
@click.option(
    "--capabilities",
    metavar="FILE",
    help="Take on the operations of this capability document alone; by default all four.",
)
@click.option("--tls-cert", metavar="FILE", help="Certificate: clients speak TLS (nnrps, wss).")
@click.option("--tls-key", metavar="FILE", help="The certificate's key.")
@click.option(
    "--max-operations",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="Open at once, in all sessions; more are refused as overload.",
)
@click.option(
    "--max-in-flight",
    type=click.IntRange(1, 65535),
    default=64,
    show_default=True,
    help="Open at once in one session.",
)
@click.option(
    "--max-request",
    type=click.IntRange(1, 64),
    default=16,
    show_default=True,
    metavar="MIB",
    help="The largest request.",
)
@click.option(
    "--max-answer",
    type=click.IntRange(1, 63),
    default=16,
    show_default=True,
    metavar="MIB",
    help="The largest answer of the server.",
)
@click.pass_context
def adapter_command(ctx: click.Context, /, **options: Any) -> None:
    """Serve an OpenAI-compatible server over NNRP, by openai-compatible/1.

    Chat (streamed and not, with tool calls and usage), Responses, models and embeddings, as far as the
    server has them. Whoever reaches --listen uses the server with the adapter's key. SIGINT or SIGTERM
    ends it: operations have 10 seconds to end.

    Exit status: 0 after a signal, 2 wrong usage, 3 could not run.
    """
    document = declared_in(options["capabilities"])
    offered = frozenset(document.operations if document is not None else OPERATIONS)
    try:
        listen = Endpoint.parse(options["listen"]).address
        cert, key = (Path(p) if (p := options[n]) else None for n in ("tls_cert", "tls_key"))
        tls = towards_clients(ListenTLS(cert, key)) if cert is not None else None
        limits = ServerLimits(
            operations=options["max_operations"],
            in_flight=options["max_in_flight"],
            body=options["max_request"] * _MIB,
        )
        upstream = replace(_upstream(options), max_answer=options["max_answer"] * _MIB)
        asyncio.run(_serve(listen, upstream, offered, tls, limits))
    except (ValueError, TLSFilesError) as error:
        click.echo(f"teeline nnrp adapter: {printable(str(error), 1000)}", err=True)
        ctx.exit(USAGE)
    except ServerError as error:
        click.echo(f"teeline nnrp adapter: {printable(str(error), 1000)}", err=True)
        ctx.exit(CANT_RUN)


async def _serve(
    listen: Address,
    options: UpstreamOptions,
    offered: frozenset[str],
    tls: ssl.SSLContext | None,
    limits: ServerLimits,
) -> None:
    """Serves until a signal comes. Raises ServerError, ValueError."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Upstream(options) as upstream:
        server = NnrpServer(listen, Adapter(upstream, offered), tls=tls, limits=limits)
        bound = await server.start()
        click.echo(f"teeline nnrp adapter: {bound} -> {upstream.base_url}", err=True)
        if options.key and not _is_local(bound):
            click.echo("teeline nnrp adapter: whoever reaches it uses the server's key", err=True)
        try:
            await stop.wait()
        finally:
            await server.stop(DRAIN)


def _is_local(address: Address) -> bool:
    """Whether only this machine's programs reach an address."""
    if address.path or address.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(address.host).is_loopback
    except ValueError:
        return False


# -- capabilities generate ---------------------------------------------------------------------------


@click.command(name="generate")
@_upstream_options
@click.option("--model", metavar="M", help="Ask this model; by default the first one listed.")
@click.option("--embedding-model", metavar="M", help="Ask this one for embeddings.")
@click.option(
    "--as",
    "form",
    type=click.Choice(FORMS),
    default="profile",
    show_default=True,
    help="The form of the document.",
)
@click.option(
    "--adapter",
    metavar="NAME",
    default="teeline-nnrp-adapter",
    show_default=True,
    help="What the conformance form names.",
)
@click.option("--output", metavar="FILE", help="Write the document there.")
@click.pass_context
def generate_command(ctx: click.Context, /, **options: Any) -> None:
    """Write the capability document of a server behind the adapter, from what it does.

    A handful of short requests are sent to it. What it was not seen to do is not declared.
    """
    try:
        found = asyncio.run(_discover(_upstream(options), options))
    except (ValueError, TLSFilesError) as error:
        click.echo(f"teeline nnrp capabilities generate: {printable(str(error), 1000)}", err=True)
        ctx.exit(USAGE)
    for operation, refusal in found.refusals.items():
        click.echo(f"{operation}: {printable(refusal) or 'nothing of it was seen'}", err=True)
    if not found.levels:
        click.echo("teeline nnrp capabilities generate: no operation was answered", err=True)
        ctx.exit(CANT_RUN)
    document = found.document(options["form"], options["adapter"])
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    with click.open_file(options["output"] or "-", "w", encoding="utf-8") as stream:
        stream.write(text)


async def _discover(upstream_options: UpstreamOptions, options: dict[str, Any]) -> Discovered:
    async with Upstream(upstream_options) as upstream:
        model, embedding = options["model"], options["embedding_model"]
        return await discover(asking(Adapter(upstream)), model=model, embedding_model=embedding)
