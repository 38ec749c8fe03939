"""The fixed words of the API: enums that field tables, automata and examples share."""

from __future__ import annotations

FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
COMPLETION_FINISH_REASONS = frozenset({"stop", "length", "content_filter"})
"""Legacy completions call no tools."""
FOREIGN_FINISH_REASONS = frozenset(
    {
        # Anthropic's Messages API
        "end_turn",
        "max_tokens",
        "tool_use",
        "stop_sequence",
        # Google's Gemini API
        "STOP",
        "MAX_TOKENS",
        "SAFETY",
        # raw tokenizer ends
        "eos",
        "eos_token",
    }
)
"""Values of other APIs that a gateway forgot to translate; no profile lowers them."""

CHAT_SERVICE_TIERS = frozenset({"auto", "default", "flex", "scale", "priority", "fast"})
DELTA_ROLES = frozenset({"developer", "system", "user", "assistant", "tool"})
TOOL_TYPES = frozenset({"function", "custom"})
RESPONSE_STATUSES = frozenset(
    {"completed", "failed", "in_progress", "cancelled", "queued", "incomplete"}
)
REASONING_MEMBERS = ("reasoning_content", "reasoning", "reasoning_details")
"""Members in which vendors put the text of a model's reasoning, beside ``content``."""
