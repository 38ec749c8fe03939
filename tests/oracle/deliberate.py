"""The differences between teeline and the official types that are meant, each with its reason.

What belongs here: lines of differences.py by reason, members of one type on one line. A line that is not
true any more fails the tests as one that is missing does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

DELIBERATE: Mapping[str, str] = {
    # -- what is required ------------------------------------------------------------------------------
    "Required and nullable in the specification; the package's generator makes those optional. "
    "Official answers send the key, with null; where it is absent that is info.": """
        chat_completion.ChoiceLogprobs content: required here
        chat_completion_chunk.ChoiceLogprobs content: required here
        Response error incomplete_details instructions metadata temperature top_p: required here
    """,
    "Optional everywhere, and yet every client loop reads it: a warning.": """
        Response status: required here
    """,
    "Required in the specification, optional in the package: info, or the event says nothing.": """
        ResponseOutputText logprobs: required here
        ResponseOutputTextAnnotationAddedEvent annotation: required here
    """,
    "In the specification, not in the package: info.": """
        ResponseFunctionCallArgumentsDoneEvent name: only here
        Response output_text: only here
    """,
    "Judged in checks/ by more than its type, absence included.": """
        CompletionChoice finish_reason: required there
    """,
    "An error ends what is checked (P3), its number included.": """
        ResponseErrorEvent sequence_number: only there, required
    """,
    "A vector comes as base64 where that was asked for; the package decodes it before it is typed.": """
        Embedding embedding: array|string here, array there
    """,
    # -- enums -----------------------------------------------------------------------------------------
    "The package reads any page as a list; the specification fixes the word.": """
        SyncPage[Model] object: an enum here only
    """,
    "Streamed calls of custom tools come like those of functions; the package has no type for them.": """
        chat_completion_chunk.ChoiceDeltaToolCall type: only here custom
    """,
    "Codes of errors grow: any string is legal (P4).": """
        ResponseError code: an enum there only
    """,
    "What the request asked for comes back; cross.* and structured.* compare what matters of it.": """
        Response tool_choice: an enum there only
    """,
    "Read by the server that runs the tool; no rule of its own for another word.": """
        response_output_item.AdditionalTools role: an enum there only
        ResponseToolSearchCall execution: an enum there only
        ResponseToolSearchOutputItem execution: an enum there only
    """,
    # -- what no rule is about -------------------------------------------------------------------------
    "Optional: whatever stands there breaks no rule (P4).": """
        ResponseApplyPatchToolCall caller created_by: only there
        ResponseApplyPatchToolCallOutput caller created_by output: only there
        ResponseCompactionItem created_by: only there
        ResponseComputerToolCall action actions: only there
        ResponseComputerToolCallOutputItem acknowledged_safety_checks: only there
        ResponseComputerToolCallOutputItem created_by: only there
        ResponseCustomToolCall async caller id namespace: only there
        ResponseCustomToolCallOutputItem caller created_by: only there
        ResponseError misalignment param type: only there
        ResponseFileSearchToolCall results: only there
        ResponseFunctionShellToolCall caller created_by: only there
        ResponseFunctionShellToolCallOutput caller created_by: only there
        ResponseFunctionToolCall async caller id namespace: only there
        ResponseFunctionToolCallOutputItem call_id caller: only there
        ResponseFunctionToolCallOutputItem created_by name: only there
        ResponseFunctionToolCallOutputItem namespace: only there
        ResponseImageGenCallPartialImageEvent background output_format: only there
        ResponseImageGenCallPartialImageEvent quality size: only there
        response_output_item.ImageGenerationCall action background error output_format: only there
        response_output_item.ImageGenerationCall quality revised_prompt size svg_usage: only there
        response_output_item.McpApprovalResponse reason: only there
        response_output_item.McpCall approval_request_id error output: only there
        response_output_item.McpListTools error: only there
        ResponseReasoningItem encrypted_content: only there
        ResponseReasoningSummaryPartDoneEvent status: only there
        ResponseShellCallCommandDeltaEvent obfuscation: only there
        ResponseToolSearchCall created_by: only there
        ResponseToolSearchOutputItem created_by: only there
        response_usage.InputTokensDetails cache_write_tokens_details: only there
    """,
    "Its texts are compared in streams; no rule is about its shape.": """
        ResponseReasoningItem content: only there
        ResponseReasoningItem summary: not looked into
        ResponseReasoningSummaryPartAddedEvent part: not looked into
        ResponseReasoningSummaryPartDoneEvent part: not looked into
    """,
    "Its texts are compared in streams; its shape is judged in the item that is done.": """
        ResponseContentPartAddedEvent part: not looked into
        ResponseContentPartDoneEvent part: not looked into
    """,
    "Another service's affair: there, and of its JSON type.": """
        ChatCompletion moderation: not looked into
        ChatCompletionChunk moderation: not looked into
        chat_completion_chunk.ChoiceDelta audio: not looked into
        Response access_programs conversation image input_transformations: not looked into
        Response instructions moderation prompt prompt_cache_diagnostics: not looked into
        Response prompt_cache_options reasoning text tool_choice tool_usage tools: not looked into
    """,
    "What a hosted tool was asked or answered: there, and of its JSON type.": """
        ResponseApplyPatchToolCall operation: not looked into
        ResponseCodeInterpreterToolCall outputs: not looked into
        ResponseComputerToolCall pending_safety_checks: not looked into
        ResponseComputerToolCallOutputItem output: not looked into
        ResponseCustomToolCallOutputItem output: not looked into
        ResponseFunctionShellToolCall action environment: not looked into
        ResponseFunctionShellToolCallOutput output: not looked into
        ResponseFunctionToolCallOutputItem output: not looked into
        ResponseFunctionWebSearch action: not looked into
        response_output_item.AdditionalTools tools: not looked into
        response_output_item.LocalShellCall action: not looked into
        response_output_item.McpListTools tools: not looked into
        ResponseShellCallOutputContentDeltaEvent delta: not looked into
        ResponseShellCallOutputContentDoneEvent output: not looked into
        ResponseToolSearchOutputItem tools: not looked into
    """,
    "No rule is about the elements of log probabilities in Responses.": """
        ResponseOutputText logprobs: not looked into
        ResponseTextDeltaEvent logprobs: not looked into
        ResponseTextDoneEvent logprobs: not looked into
    """,
    "The item that is done has it again, and is judged then.": """
        ResponseOutputTextAnnotationAddedEvent annotation: not looked into
    """,
}


def lines(text: str) -> Iterator[str]:
    """One difference a line, as differences.py words them."""
    for line in text.strip().splitlines():
        where, _, what = line.strip().partition(": ")
        model, *members = where.split(" ")
        yield from (f"{model}.{member}: {what}" for member in members)


def deliberate() -> list[str]:
    return [line for text in DELIBERATE.values() for line in lines(text)]
