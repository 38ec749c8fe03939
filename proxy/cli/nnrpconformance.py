"""``teeline nnrp conformance`` and ``teeline nnrp vectors``: recipes run live, readable ones made into bytes.

What belongs here: arguments, output and exit codes. What doesn't: recipes and their running
(proxy/nnrp/conformance).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import click

from teeline.config.model import UpstreamTLS
from teeline.proxy.cli import CANT_RUN, USAGE
from teeline.proxy.cli.nnrpfiles import declared_in, read_document
from teeline.proxy.nnrp.clientlink import Endpoint
from teeline.proxy.nnrp.conformance import suite, vectors
from teeline.proxy.nnrp.conformance.conversation import ConversationError
from teeline.proxy.nnrp.conformance.declared import Difference, differences
from teeline.proxy.nnrp.conformance.plan import Plan, plan
from teeline.proxy.nnrp.conformance.runner import (
    Result,
    Tapped,
    Target,
    asking,
    results_document,
    run_case,
    tapped,
)
from teeline.proxy.nnrp.conformance.suite import Recipe, SuiteError
from teeline.proxy.nnrp.discovery import discover
from teeline.proxy.nnrp.observed import Observed
from teeline.proxy.nnrp.tap import TapError
from teeline.proxy.text import printable
from teeline.proxy.tls import TLSFilesError, towards_upstream
from teeline.validators.nnrp.capabilities import Capabilities

FAILED = 1


@click.command(name="conformance", short_help="Run recipes against an NNRP server.")
@click.option(
    "--profile",
    metavar="MANIFEST",
    help="The suite's manifest of recipes; by default the recipes that come with teeline.",
)
@click.option(
    "--capabilities", required=True, metavar="FILE", help="What the server declares itself with."
)
@click.option(
    "--target",
    required=True,
    metavar="ADDR",
    help="nnrp://, nnrps://, ws:// or wss://HOST:PORT, or unix:PATH.",
)
@click.option(
    "--results", metavar="OUT", help="Write api-profile-case-results there; - for stdout."
)
@click.option("--plan", "plan_path", metavar="OUT", help="Write the execution plan there.")
@click.option(
    "--through-tap",
    is_flag=True,
    help="Judge the server on the wire, too: a rule at fail that it breaks fails its case.",
)
@click.option("--model", metavar="M", help="Instead of example-model, and to look at modes.")
@click.option(
    "--set",
    "parameters",
    multiple=True,
    metavar="[ID/]NAME=VALUE",
    help="A recipe's parameter; without an ID of all recipes that have it.",
)
@click.option("--informational", is_flag=True, help="Run experimental and deprecated recipes, too.")
@click.option(
    "--no-observe", is_flag=True, help="Don't compare what the server does with what it declares."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="For one case.",
)
@click.option("--target-ca", metavar="FILE", help="Whom to trust for nnrps:// and wss://.")
@click.pass_context
def conformance_command(ctx: click.Context, /, **options: Any) -> None:
    """Run conformance recipes of openai-compatible/1 against a live NNRP server.

    Recipes are chosen by what the capability document declares. A line a case is written to stdout, and
    where the server does other than it declares.

    Exit status: 0 all passed, 1 a case failed or something declared was not seen, 2 wrong usage, 3 the
    server can't be reached.
    """
    try:
        code = asyncio.run(_run(options))
    except (ValueError, SuiteError, TLSFilesError) as error:
        click.echo(f"teeline nnrp conformance: {printable(str(error), 1000)}", err=True)
        code = USAGE
    except (ConversationError, TapError) as error:
        click.echo(f"teeline nnrp conformance: {printable(str(error), 1000)}", err=True)
        code = CANT_RUN
    ctx.exit(code)


async def _run(options: dict[str, Any]) -> int:
    """Raises ValueError, SuiteError, TLSFilesError, ConversationError, TapError."""
    path = options["capabilities"]
    capabilities = declared_in(path)
    assert capabilities is not None  # a path was given
    recipes = _recipes(options)
    made = plan(recipes, capabilities, read_document(path))
    if options["plan_path"]:
        _write(options["plan_path"], made.document(options["results"] or ""))
    endpoint = Endpoint.parse(options["target"])
    ca = options["target_ca"]
    trust = UpstreamTLS(ca=Path(ca) if ca else None)
    tls = towards_upstream(trust) if endpoint.address.tls else None
    target = Target(endpoint, tls, options["timeout"])
    chosen = [*made.selected, *(made.informational if options["informational"] else ())]
    quiet = options["results"] == "-"
    results = await _results(chosen, target, capabilities, options["through_tap"], quiet=quiet)
    if options["results"]:
        _write(options["results"], results_document(made.adapter, results))
    differing: Sequence[Difference] = ()
    if not options["no_observe"]:
        seen = await discover(asking(target), model=options["model"])
        differing = differences(capabilities, seen)
    if not quiet:
        _summarise(made, results, differing)
    failed = any(result.outcome == "failed" for result in results)
    return FAILED if failed or any(difference.missing for difference in differing) else 0


def _recipes(options: dict[str, Any]) -> list[Recipe]:
    """The recipes with their parameters put in. Raises SuiteError, ValueError."""
    given: dict[str, str] = {}
    for text in options["parameters"]:
        name, mark, value = text.partition("=")
        if not mark or not name:
            raise ValueError(f"--set {text}: NAME=VALUE is expected")
        given[name] = value
    loaded = suite.load(Path(options["profile"]) if options["profile"] else None)
    unknown = given.keys() - _settable(loaded)
    if unknown:
        raise ValueError(f"--set {min(unknown)}: no recipe has this parameter")
    return [recipe.with_parameters(given, options["model"]) for recipe in loaded]


def _settable(recipes: Sequence[Recipe]) -> set[str]:
    names = {name for recipe in recipes for name in recipe.parameters}
    return names | {f"{recipe.id}/{name}" for recipe in recipes for name in recipe.parameters}


async def _results(
    recipes: Sequence[Recipe],
    target: Target,
    capabilities: Capabilities,
    through_tap: bool,
    *,
    quiet: bool,
) -> list[Result]:
    results: list[Result] = []
    async with _way(target, capabilities, through_tap) as (asked, tap):
        for recipe in recipes:
            try:
                result = await run_case(recipe, asked, capabilities)
            except ConversationError as error:
                if not results:
                    raise
                result = Result(recipe, "failed", Observed(), str(error))
            results.append(result if tap is None else await tap.judged(result))
            if not quiet:
                click.echo(_line(results[-1]))
    return results


@asynccontextmanager
async def _way(
    target: Target, capabilities: Capabilities, through_tap: bool
) -> AsyncIterator[tuple[Target, Tapped | None]]:
    if not through_tap:
        yield target, None
        return
    async with tapped(target, capabilities) as tap:
        yield tap.target, tap


def _line(result: Result) -> str:
    words = {"passed": "PASS", "failed": "FAIL", "skipped": "SKIP"}[result.outcome]
    text = f"{words}  {printable(result.recipe.id)}"
    warned = [] if result.message else list(result.rules)
    more = printable(result.message, 1000) or ", ".join(warned)
    return f"{text}  {more}" if more else text


def _summarise(made: Plan, results: Sequence[Result], differing: Sequence[Difference]) -> None:
    for difference in differing:
        click.echo(f"{'FAIL' if difference.missing else 'WARN'}  {printable(str(difference))}")
    outcomes = [result.outcome for result in results]
    counts = [f"{outcomes.count(word)} {word}" for word in ("passed", "failed", "skipped")]
    click.echo(
        f"{len(results)} cases: {', '.join(counts)}; {len(made.not_claimed)} not claimed, "
        f"{len(made.informational)} informational"
    )


def _write(path: str, value: Mapping[str, Any]) -> None:
    with click.open_file(path, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


# -- vectors -----------------------------------------------------------------------------------------


@click.command(name="vectors", short_help="Write raw bytes and the rules they break.")
@click.option("--output", metavar="FILE", default="-", help="Write them there instead of stdout.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(vectors.KINDS),
    help="These alone; by default all.",
)
def vectors_command(output: str, kinds: tuple[str, ...]) -> None:
    """Write machine-readable vectors: raw bytes of both sides, and the rules that they break.

    One JSON object a line, made of readable conversations, of recipes, and of the NNRP rules' examples:
    the same bytes each time.
    """
    with click.open_file(output, "w", encoding="utf-8") as stream:
        for vector in vectors.generated(kinds or vectors.KINDS):
            stream.write(vector.line())
