"""Usage objects: the counters' types, and what must hold between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from teeline.validators.checks.context import Context
from teeline.validators.checks.estimate import check_prompt_tokens
from teeline.validators.fields.usage import (
    COMPLETION_COUNTERS,
    EMBEDDINGS_KEYS,
    MODALITIES,
    PROMPT_COUNTERS,
    UsageTable,
)


def check_usage(ctx: Context, usage: Any, table: UsageTable, pointer: str) -> dict[str, int] | None:
    """Checks one usage object that is there; its plain counters, None where they can't be compared."""
    if not isinstance(usage, dict):
        ctx.report("usage.not-object", pointer, usage)
        return None
    if (
        usage.get(table.prompt) is None
        and usage.get(table.completion) is None
        and any(name in usage for name in table.foreign)
    ):
        ctx.report("usage.foreign-keys", pointer, usage)
        return None
    _extras(ctx, usage, table.known, pointer)
    counts = _counts(ctx, usage, table.keys, pointer)
    details = _Details(ctx, usage, table, pointer)
    if counts is not None:
        _sum(ctx, counts, table, pointer)
        details.compare(counts)
        ctx.exchange.usage = {**counts, **details.counters}
    return counts


def check_embeddings_usage(ctx: Context, usage: Any, pointer: str) -> None:
    """Checks the usage object of an embeddings answer, which has no completion."""
    if not isinstance(usage, dict):
        ctx.report("usage.not-object", pointer, usage)
        return
    _extras(ctx, usage, frozenset(EMBEDDINGS_KEYS), pointer)
    counts = _counts(ctx, usage, EMBEDDINGS_KEYS, pointer)
    if counts is None:
        return
    ctx.exchange.usage = counts
    prompt, total = (counts[name] for name in EMBEDDINGS_KEYS)
    if prompt != total:
        detail = f'"prompt_tokens": {prompt}, "total_tokens": {total}'
        ctx.report("usage.embeddings-total-differs", f"{pointer}/total_tokens", detail=detail)
    if prompt == 0 and _holds_text(ctx.request.document.get("input")):
        ctx.report("usage.prompt-zero", f"{pointer}/prompt_tokens", 0)


def _holds_text(value: Any) -> bool:
    """Whether an input is more than empty strings and empty lists."""
    return any(map(bool, value)) if isinstance(value, list) else bool(value)


def _extras(ctx: Context, usage: Mapping[str, Any], known: Set[str], pointer: str) -> None:
    if usage.keys() <= known:
        return
    extra = [name for name in usage if name not in known]
    if extra:
        ctx.report("usage.vendor-fields", pointer, {name: usage[name] for name in extra[:6]})


def _counts(
    ctx: Context, usage: Mapping[str, Any], names: Sequence[str], pointer: str
) -> dict[str, int] | None:
    """The counters of these names; None unless each is a non-negative integer."""
    counts: dict[str, int] = {}
    for name in names:
        value = usage.get(name)
        if type(value) is int and value >= 0:
            counts[name] = value
        elif value is None:
            ctx.report("usage.keys-missing", f"{pointer}/{name}", value)
        elif (count := _integer(value)) is None:
            ctx.report("usage.not-integer", f"{pointer}/{name}", value)
        elif count < 0:
            ctx.report("usage.negative", f"{pointer}/{name}", value)
        else:
            counts[name] = count
    return counts if len(counts) == len(names) else None


def _integer(value: Any) -> int | None:
    """An integer, also one written as 6.0; None for everything else (True is no count)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None


def _sum(ctx: Context, counts: Mapping[str, int], table: UsageTable, pointer: str) -> None:
    parts = counts[table.prompt] + counts[table.completion]
    total = counts[table.total]
    if total != parts:
        rule = "usage.total-too-low" if total < parts else "usage.total-too-high"
        ctx.report(
            rule,
            f"{pointer}/{table.total}",
            detail=f'"{table.total}": {total}, {counts[table.prompt]} + {counts[table.completion]} = {parts}',
        )


class _Details:
    """The two details objects: types first, then the subset relations."""

    def __init__(
        self, ctx: Context, usage: Mapping[str, Any], table: UsageTable, pointer: str
    ) -> None:
        self._ctx = ctx
        self._table = table
        self._pointer = pointer
        self.counters: dict[str, int] = {}
        self._prompt = self._read(usage, table.prompt_details, PROMPT_COUNTERS, "cached_tokens")
        self._completion = self._read(
            usage, table.completion_details, COMPLETION_COUNTERS, "reasoning_tokens"
        )

    def _read(
        self, usage: Mapping[str, Any], name: str, counters: tuple[str, ...], needed: str
    ) -> dict[str, int]:
        report, pointer = self._ctx.report, f"{self._pointer}/{name}"
        value = usage.get(name)
        if value is None:
            if self._table.counters_required:
                report("usage.responses-details-missing", pointer, value)
            return {}
        if not isinstance(value, dict):
            report("usage.details-type", pointer, value)
            return {}
        if self._table.counters_required:
            self._required(value, needed, pointer)
        read: dict[str, int] = {}
        for counter in counters:
            count = value.get(counter)
            if type(count) is not int or count < 0:
                count = self._counter(count, f"{pointer}/{counter}")
            if count is not None:
                read[counter] = self.counters[f"{name}.{counter}"] = count
        return read

    def _required(self, value: Mapping[str, Any], needed: str, pointer: str) -> None:
        if value.get(needed) is None:
            self._ctx.report(
                "usage.responses-counter-missing", f"{pointer}/{needed}", value.get(needed)
            )
        if needed == "cached_tokens" and "cache_write_tokens" not in value:
            self._ctx.report("usage.cache-write-missing", f"{pointer}/cache_write_tokens")

    def _counter(self, value: Any, pointer: str) -> int | None:
        if value is None:
            return None
        count = _integer(value)
        if count is None:
            self._ctx.report("usage.details-type", pointer, value)
        elif count < 0:
            self._ctx.report("usage.negative", pointer, value)
            return None
        return count

    def compare(self, counts: Mapping[str, int]) -> None:
        """Parts must not exceed the whole they are parts of; nothing is part of anything."""
        if not any(self.counters.values()):
            return
        table = self._table
        prompt, completion = counts[table.prompt], counts[table.completion]
        predicted = sum(
            self._completion.get(f"{w}_prediction_tokens", 0) for w in ("accepted", "rejected")
        )
        rows = (
            (
                "usage.cached-exceeds-prompt",
                self._prompt.get("cached_tokens", 0),
                table.prompt,
                prompt,
            ),
            (
                "usage.cache-write-exceeds-prompt",
                self._prompt.get("cache_write_tokens", 0),
                table.prompt,
                prompt,
            ),
            (
                "usage.reasoning-exceeds-completion",
                self._completion.get("reasoning_tokens", 0),
                table.completion,
                completion,
            ),
            ("usage.prediction-exceeds-completion", predicted, table.completion, completion),
            ("usage.modalities-exceed-total", _modalities(self._prompt), table.prompt, prompt),
            (
                "usage.modalities-exceed-total",
                _modalities(self._completion),
                table.completion,
                completion,
            ),
        )
        for rule, part, name, whole in rows:
            if part > whole:
                self._ctx.report(rule, self._pointer, detail=f'{part} of "{name}": {whole}')


def _modalities(details: Mapping[str, int]) -> int:
    return sum(details.get(name, 0) for name in MODALITIES)


def check_zeros(
    ctx: Context, counts: Mapping[str, int], table: UsageTable, pointer: str, *, answered: bool
) -> None:
    """Counters against what went in and out: zero, or a prompt of another size than was sent.

    ``answered``: the answer holds text or calls. Official Responses usage is all zeros at times.
    """
    if table.counters_required and not any(counts.values()):
        return
    if answered and counts[table.completion] == 0:
        ctx.report("usage.completion-zero", f"{pointer}/{table.completion}", 0)
    cached = ctx.exchange.usage.get(f"{table.prompt_details}.cached_tokens", 0)
    if counts[table.prompt] == 0 and not cached and _has_input(ctx):
        ctx.report("usage.prompt-zero", f"{pointer}/{table.prompt}", 0)
    check_prompt_tokens(ctx, counts[table.prompt], f"{pointer}/{table.prompt}")


def _has_input(ctx: Context) -> bool:
    document = ctx.request.document
    return any(document.get(name) for name in ("messages", "input", "prompt", "instructions"))
