"""``teeline nnrp``: connections that carry openai-compatible/1, live and recorded, and capability documents.

What belongs here: arguments, output and exit codes. What doesn't: recordings and the tap (proxy/nnrp),
detection (validators/nnrp), the bridge's command (nnrpbridge.py).
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from teeline.config.model import ListenTLS, UpstreamTLS
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.cli.check import (
    Outcome,
    exit_code,
    policy_of,
    style_of,
    told,
    write_report,
)
from teeline.proxy.cli.nnrpadapter import adapter_command, generate_command
from teeline.proxy.cli.nnrpbridge import command as bridge_command
from teeline.proxy.cli.nnrpconformance import conformance_command, vectors_command
from teeline.proxy.cli.nnrpfiles import declared_in, read_document
from teeline.proxy.cli.nnrpoffer import NO_DOCUMENT, as_json, inspected, is_address, lines, offered
from teeline.proxy.cli.nnrpsinks import sinks_of, telling
from teeline.proxy.clock import SystemClock
from teeline.proxy.inputs.items import Problem
from teeline.proxy.memory import Inspectors
from teeline.proxy.nnrp.address import Address
from teeline.proxy.nnrp.capture import read, recordings, replay
from teeline.proxy.nnrp.opening import Opening, OpeningError
from teeline.proxy.nnrp.tap import NnrpTap, TapError
from teeline.proxy.nnrp.watch import Watch
from teeline.proxy.observers import Observers
from teeline.proxy.reports import RENDERERS
from teeline.proxy.reports.model import Report, ReportedExchange
from teeline.proxy.schemapool import SchemaPool
from teeline.proxy.sinks import Fanout, Sink, SinkError
from teeline.proxy.text import printable
from teeline.proxy.tls import TLSFilesError, towards_clients, towards_upstream
from teeline.validators.checks.reporter import Reporter
from teeline.validators.events import Closed
from teeline.validators.limits import DEFAULT_LIMITS
from teeline.validators.model import Exchange, Severity
from teeline.validators.nnrp.capabilities import (
    FORMS,
    Capabilities,
    check_capabilities,
)
from teeline.validators.policy import Policy
from teeline.validators.profiles import NONE
from teeline.validators.rules import register


@click.group(name="nnrp")
def command() -> None:
    """NNRP connections that carry openai-compatible/1: check them, serve them, test them."""


def _options(function: Any) -> Any:
    """The options that every report has."""
    for option in (
        click.option("--quiet", is_flag=True, help="No passing exchanges, no summary."),
        click.option("--show-info", is_flag=True, help="List info findings, too."),
        click.option("--ignore", multiple=True, metavar="PATTERN", help="Don't report these."),
        click.option("--select", multiple=True, metavar="PATTERN", help="Report these alone."),
        click.option(
            "--fail-on",
            type=click.Choice(["warn", "fail", "never"]),
            default="fail",
            show_default=True,
            help="Exit with 1 where a finding is at least this bad.",
        ),
        click.option("--output", metavar="FILE", help="Write the report there."),
        click.option(
            "--format",
            "form",
            type=click.Choice(list(RENDERERS)),
            default="text",
            show_default=True,
            help="The form of the report.",
        ),
    ):
        function = option(function)
    return function


_capabilities_option = click.option(
    "--capabilities",
    metavar="FILE",
    help="The capability document that the adapter declares itself with.",
)


def _report(outcome: Outcome, options: dict[str, Any]) -> None:
    """Writes the report and ends the command."""
    fail_on = options["fail_on"]
    report = Report(
        outcome.exchanges,
        register(),
        problems=outcome.problems,
        threshold=None if fail_on == "never" else Severity.parse(fail_on),
    )
    output = options["output"]
    style = style_of(output, options["show_info"], options["quiet"])
    write_report(RENDERERS[options["form"]](report, style), output)
    for problem in outcome.problems:
        click.echo(f"teeline nnrp: {told(problem)}", err=True)
    sys.exit(exit_code(report, outcome))


# -- check -------------------------------------------------------------------------------------------


@command.command(name="check")
@click.argument("paths", metavar="CAPTURE...", nargs=-1, required=True)
@_capabilities_option
@_options
def check_command(paths: tuple[str, ...], capabilities: str | None, **options: Any) -> None:
    """Check recorded connections offline.

    A CAPTURE is the raw bytes of one direction; the direction is in its name (call_c2s.bin and
    call_s2c.bin are one connection, on TCP, a Unix socket or WebSocket). Folders are searched for
    *.bin. Times are not recorded: rules that need them are off.

    Exit status: 0 clean, 1 findings at or above --fail-on, 2 wrong usage or something unreadable.
    """
    policy = policy_of(options["select"], options["ignore"], NONE)
    _report(check_captures(paths, declared_in(capabilities), policy, time.time()), options)


def check_captures(
    paths: Sequence[str], capabilities: Capabilities | None, policy: Policy, at: float
) -> Outcome:
    """Checks the recordings that files and folders hold."""
    outcome = Outcome()
    for recording in recordings(paths, outcome.problems):
        try:
            exchanges = replay(read(recording.client), read(recording.server), capabilities, at)
        except OSError as error:
            outcome.problems.append(Problem(recording.name, error.strerror or "unreadable"))
            continue
        for number, exchange in enumerate(exchanges, 1):
            policy.apply([Closed(exchange)])
            name = exchange.request_id or exchange.operation or str(number)
            outcome.exchanges.append(ReportedExchange(name, recording.name, exchange))
    return outcome


_ca_option = click.option("--ca", metavar="FILE", help="Whom to trust for nnrps:// and wss://.")


# -- capabilities ------------------------------------------------------------------------------------


@command.group(name="capabilities")
def capabilities_group() -> None:
    """Look at capability documents."""


@capabilities_group.command(name="check")
@click.argument("files", metavar="FILE|ADDR...", nargs=-1, required=True)
@click.option(
    "--as",
    "document_form",
    type=click.Choice(FORMS),
    help="The form that a document is in; by default the one that it looks like.",
)
@_ca_option
@_options
@click.pass_context
def capabilities_check(
    ctx: click.Context,
    /,
    files: tuple[str, ...],
    document_form: str | None,
    ca: str | None,
    **options: Any,
) -> None:
    """Check capability documents, in the profile's form or the conformance suite's.

    For an ADDR (nnrp://HOST:PORT, nnrps://..., ws://HOST:PORT/PATH, unix:PATH) the opening of a session with
    the server there is checked: NNRP has no message that carries the document.
    """
    policy = policy_of(options["select"], options["ignore"], NONE)
    outcome = Outcome()
    for file in files:
        if is_address(file):
            exchange = inspected(_offered(ctx, file, ca), time.time())
        else:
            exchange = Exchange(method="NNRP", path="capabilities", operation="capabilities")
            check_capabilities(Reporter(exchange), read_document(file), document_form)
        policy.apply([Closed(exchange)])
        outcome.exchanges.append(ReportedExchange(Path(file).name, file, exchange))
    _report(outcome, options)


@capabilities_group.command(name="show")
@click.argument("file", metavar="FILE|ADDR")
@_ca_option
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text")
@click.pass_context
def capabilities_show(ctx: click.Context, /, file: str, ca: str | None, form: str) -> None:
    """Show levels, operations and models that a capability document declares.

    For an ADDR (nnrp://HOST:PORT, nnrps://..., ws://HOST:PORT/PATH, unix:PATH), show what the server there
    offers when a session is opened: NNRP has no message that carries the document.
    """
    if is_address(file):
        opening = _offered(ctx, file, ca)
        click.echo(as_json(opening) if form == "json" else "\n".join(lines(opening)))
        click.echo(f"teeline nnrp: {NO_DOCUMENT}", err=True)
        return
    declared = declared_in(file)
    assert declared is not None  # a file was named
    if form == "json":
        click.echo(json.dumps(_as_object(declared)))
        return
    levels = ", ".join(map(str, declared.levels)) or "none"
    click.echo(f"levels      {levels}")
    for name, modes in declared.operations.items():
        on = [word for word, value in modes._asdict().items() if value]
        click.echo(f"operation   {printable(name)}: {', '.join(on) or 'nothing'}")
    for title, names in (("model", declared.models), ("extension", declared.extensions)):
        for name in sorted(names):
            click.echo(f"{title:<11} {printable(name)}")


def _offered(ctx: click.Context, address: str, ca: str | None) -> Opening:
    """What a server offers; the command ends where there is none."""
    try:
        return offered(address, ca)
    except (ValueError, TLSFilesError) as error:
        raise click.UsageError(f"{printable(address)}: {printable(str(error), 1000)}") from None
    except OpeningError as error:
        click.echo(f"teeline nnrp: {printable(address)}: {printable(str(error), 1000)}", err=True)
        ctx.exit(CANT_RUN)


def _as_object(declared: Capabilities) -> dict[str, Any]:
    return {
        "v": 1,
        "levels": list(declared.levels),
        "operations": {name: modes._asdict() for name, modes in declared.operations.items()},
        "models": sorted(declared.models),
        "extensions": sorted(declared.extensions),
    }


# -- tap ---------------------------------------------------------------------------------------------


@command.command(name="tap", short_help="Watch connections between clients and a server.")
@click.option("--listen", required=True, metavar="ADDR", help="HOST:PORT or unix:PATH.")
@click.option("--upstream", required=True, metavar="ADDR", help="The server, in the same forms.")
@_capabilities_option
@telling
@click.option("--tls-cert", metavar="FILE", help="Certificate: ends the clients' TLS here.")
@click.option("--tls-key", metavar="FILE", help="The certificate's key.")
@click.option("--upstream-ca", metavar="FILE", help="Whom to trust for an upstream tls://...")
@click.pass_context
def tap_command(ctx: click.Context, /, **options: Any) -> None:
    """Stand between NNRP clients and a server; every byte goes through unchanged.

    TCP, Unix sockets and WebSocket are told by their first bytes. TLS passes through uninspected
    unless --tls-cert ends it here; the upstream is then tls://HOST:PORT. Violations are written to
    stdout. SIGINT or SIGTERM ends it.
    """
    declared = declared_in(options["capabilities"])
    try:
        listen, upstream = (Address.parse(options[name]) for name in ("listen", "upstream"))
        contexts = _contexts(upstream, options)
        policy = policy_of(options["select"], options["ignore"], NONE)
        asyncio.run(_tap(listen, upstream, declared, policy, contexts, sinks_of(options)))
    except (ValueError, TLSFilesError, SinkError) as error:
        click.echo(f"teeline nnrp tap: {printable(str(error), 1000)}", err=True)
        ctx.exit(USAGE)
    except TapError as error:
        click.echo(f"teeline nnrp tap: {printable(str(error), 1000)}", err=True)
        ctx.exit(CANT_RUN)


def _contexts(upstream: Address, options: dict[str, Any]) -> dict[str, Any]:
    cert, key, ca = (options[name] for name in ("tls_cert", "tls_key", "upstream_ca"))
    files = [Path(name) if name else None for name in (cert, key, ca)]
    # No protocol is named: NNRP over TLS has no name of its own, and http/1.1 is for WebSocket alone.
    ours = towards_clients(ListenTLS(files[0], files[1]), ()) if files[0] is not None else None
    theirs = towards_upstream(UpstreamTLS(ca=files[2]), ()) if upstream.tls else None
    return {"accept_tls": ours, "connect_tls": theirs}


async def _tap(
    listen: Address,
    upstream: Address,
    declared: Capabilities | None,
    policy: Policy,
    contexts: dict[str, Any],
    sinks: list[Sink],
) -> None:
    """Taps until a signal comes. Raises TapError, SinkError."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    fanout, checker, clock = Fanout(sinks), SchemaPool(), SystemClock()
    limits = replace(DEFAULT_LIMITS, body=DEFAULT_LIMITS.packet_in_place)
    observers = Observers(Inspectors(), policy, fanout, clock, checker=checker, limits=limits)

    def watch(client: str) -> Watch:
        return Watch(observers, clock, limits, declared, upstream="nnrp", client=client)

    tap = NnrpTap(listen, upstream, watch, **contexts)
    await fanout.start()
    try:
        bound = await tap.start()
        click.echo(f"teeline nnrp tap: {bound} -> {upstream}", err=True)
        await stop.wait()
        await tap.stop()
        await observers.settle(2.0)
        await fanout.drain(5.0)
    finally:
        await fanout.close()
        await checker.close()


for _command in (bridge_command, adapter_command, conformance_command, vectors_command):
    command.add_command(_command)
capabilities_group.add_command(generate_command)
