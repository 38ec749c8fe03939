"""Usage objects: which counters each API has, and which of them are parts of which.

One table an API; the relations between counters (sums, subsets) are rows, evaluated in checks/usage.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UsageTable:
    """The counters of one API's usage object, as member names and dotted paths into its details."""

    prompt: str
    completion: str
    total: str
    prompt_details: str
    completion_details: str
    foreign: tuple[str, ...]
    """The names that another API has in place of ``prompt`` and ``completion``."""
    counters_required: bool
    """Whether cached and reasoning counters must be in their details object (Responses)."""

    keys: tuple[str, str, str] = field(init=False)
    """The counters that are no part of another one."""
    known: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        keys = (self.prompt, self.completion, self.total)
        object.__setattr__(self, "keys", keys)
        known = frozenset((*keys, self.prompt_details, self.completion_details))
        object.__setattr__(self, "known", known)


CHAT_USAGE = UsageTable(
    prompt="prompt_tokens",
    completion="completion_tokens",
    total="total_tokens",
    prompt_details="prompt_tokens_details",
    completion_details="completion_tokens_details",
    foreign=("input_tokens", "output_tokens"),
    counters_required=False,
)

RESPONSES_USAGE = UsageTable(
    prompt="input_tokens",
    completion="output_tokens",
    total="total_tokens",
    prompt_details="input_tokens_details",
    completion_details="output_tokens_details",
    foreign=("prompt_tokens", "completion_tokens"),
    counters_required=True,
)

EMBEDDINGS_KEYS = ("prompt_tokens", "total_tokens")
"""Embeddings generate nothing: the two are equal, and there are no details."""

PROMPT_COUNTERS = (
    "cached_tokens",
    "audio_tokens",
    "text_tokens",
    "image_tokens",
    "cache_write_tokens",
)
COMPLETION_COUNTERS = (
    "reasoning_tokens",
    "audio_tokens",
    "text_tokens",
    "accepted_prediction_tokens",
    "rejected_prediction_tokens",
)
MODALITIES = ("text_tokens", "audio_tokens", "image_tokens")
