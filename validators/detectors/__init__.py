"""The relay check as data: what is asked, what must hold, and what a breach costs.

What belongs here: the detectors with their weights. What doesn't: sending anything (proxy/probe), adding up
(scoring.py), the rules themselves (rules/), which live traffic shares.
"""

from __future__ import annotations

from typing import Final

from teeline.validators.detectors.model import Detector

MODELS: Final = "ModelsEndpoint"
BASIC: Final = "BasicRequest"
RESPONSES: Final = "ResponsesProtocol"
RESPONSES_STREAM: Final = "ResponsesStreaming"
CHAT: Final = "ChatCompletionsProtocol"
CHAT_STREAM: Final = "ChatCompletionsStreaming"
TOOLS: Final = "ToolCalling"
STRUCTURED: Final = "StructuredOutput"
USAGE: Final = "UsageIntegrity"
EXTENDED: Final = "ExtendedChecks"

DETECTORS: Final = (
    Detector(MODELS, 10, "the list of models"),
    Detector(BASIC, 10, "whether a plain question is answered at all"),
    Detector(RESPONSES, 20, "the response object"),
    Detector(RESPONSES_STREAM, 15, "events of a response, their order, texts told several times"),
    Detector(CHAT, 15, "the completion object"),
    Detector(CHAT_STREAM, 10, "chunks, their end, usage in a stream"),
    Detector(TOOLS, 10, "a function call, in the tool shape of each protocol"),
    Detector(STRUCTURED, 5, "an answer that was asked to be JSON of a schema"),
    Detector(USAGE, 5, "the counts of tokens"),
    # Beyond the nine: it has no weight, so that scores of different probe sets compare. What it finds
    # still counts for the result.
    Detector(EXTENDED, 0, "options, errors and embeddings"),
)
