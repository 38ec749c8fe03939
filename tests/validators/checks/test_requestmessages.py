"""Messages of a request: roles, parts, images, and calls with their answers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.validators.requests import asked, broken, chat, responses, user


def calls(*ids: Any) -> dict[str, Any]:
    made = [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def tool(call_id: Any, content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


# -- roles and content --------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["User", "ai", "", None, 7, ["user"], {}])
def test_a_role_is_one_of_the_apis_words(role: Any) -> None:
    found = broken(chat({"role": role, "content": "Hi"}))
    assert found == {"request.message-role": "/messages/0/role"}


@pytest.mark.parametrize("message", [None, "Hi", 7, [], True])
def test_a_message_is_an_object(message: Any) -> None:
    assert broken(chat(message)) == {"request.message-role": "/messages/0"}


def test_the_role_tool_is_chats_alone() -> None:
    item = {"role": "tool", "content": "ok"}
    assert broken(responses(input=[item]), "responses") == {"request.message-role": "/input/0/role"}


@pytest.mark.parametrize(
    "item",
    [
        {"id": "msg_1"},
        {"type": "item_reference", "id": "msg_1"},
        {"type": "function_call_output", "call_id": "c", "output": [{"type": "text"}]},
        {"type": "reasoning", "summary": [], "content": None},
        {"type": ["odd"]},
        None,
        "Hi",
    ],
)
def test_items_that_are_no_messages_have_neither_role_nor_parts(item: Any) -> None:
    assert broken(responses(input=[item]), "responses") == {}


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": None},
        {"role": "system"},
        {"role": "user", "content": {}},
        {"role": "assistant", "content": 7},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": [7]},
        {"role": "user", "content": ["Hi"]},
        {"role": "user", "content": [{"type": {}}]},
        {"role": "user", "content": [{"type": "text"}]},
        {"role": "user", "content": [{"type": "text", "text": None}]},
        {"role": "user", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "system", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
    ],
)
def test_content_that_its_role_may_not_have(message: Any) -> None:
    assert list(broken(chat(message))) == ["request.message-content"]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": ""},
        {"role": "user", "content": []},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "assistant", "audio": {"id": "audio_1"}},
        {"role": "assistant", "content": None, "reasoning_content": "Hm."},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": []}]},
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://x"}}]},
        {"role": "user", "content": [{"type": "text", "text": "", "cache_control": {}}]},
        {"role": "function", "name": "f", "content": None},
    ],
)
def test_content_that_is_legal_or_a_vendors(message: Any) -> None:
    assert asked(chat(message)) == []


@pytest.mark.parametrize(
    ("role", "kind", "legal"),
    [
        ("user", "input_text", True),
        ("assistant", "output_text", True),
        ("assistant", "input_text", False),
        ("user", "output_text", False),
        ("user", "text", False),
        ("user", "summary_text", True),
    ],
)
def test_parts_of_responses(role: str, kind: str, legal: bool) -> None:
    item = {"role": role, "content": [{"type": kind, "text": "Hi"}]}
    found = broken(responses(input=[item]), "responses")
    assert found == ({} if legal else {"request.message-content": "/input/0/content/0/type"})


# -- images -------------------------------------------------------------------------------------------


def images(image: Any) -> list[str]:
    part = {"type": "image_url", **({} if image is ... else {"image_url": image})}
    return list(broken(chat(user([part]))))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "cat.png",
        "/9j/4AAQSkZJRg==",
        "data:image/png",
        "data:image/svg+xml;utf8,<svg/>",
        "data:;base64,AAAA",
        "data:image/png;base64,",
        "data:image/png;base64,A=AA",
        "data:image/png;base64,<AAA>",
        "DATA:image/png,AAAA",
    ],
)
def test_a_text_that_shows_no_image(url: str) -> None:
    assert images({"url": url}) == ["request.image-part"]
    part = {"type": "input_image", "image_url": url}
    found = broken(responses(input=[user([part])]), "responses")
    assert found == {"request.image-part": "/input/0/content/0/image_url"}


@pytest.mark.parametrize(
    "url",
    [
        "https://x/cat.png",
        "HTTP://x",
        "gs://bucket/cat.png",
        "data:image/png;base64,AAAA",
        "data:application/pdf;base64,AA==",
        "data:image/jpeg;charset=utf-8;base64,AA-_\nAAA=",
    ],
)
def test_a_url_that_may_show_one(url: str) -> None:
    assert images({"url": url}) == []
    assert images(url) == []  # some servers take the text itself


@pytest.mark.parametrize("image", [..., None, 7, [], {}, {"url": None}, {"url": 7}])
def test_an_image_part_without_an_image(image: Any) -> None:
    assert images(image) == ["request.image-part"]


def test_an_uploaded_file_is_an_image() -> None:
    part = {"type": "input_image", "file_id": "file_1", "image_url": None}
    assert broken(responses(input=[user([part])]), "responses") == {}


def test_the_object_of_chat_is_no_url_on_responses() -> None:
    part = {"type": "input_image", "image_url": {"url": "https://x"}}
    found = broken(responses(input=[user([part])]), "responses")
    assert found == {"request.image-part": "/input/0/content/0/image_url"}


def test_evidence_holds_nothing_of_an_image() -> None:
    (found,) = asked(chat(user([{"type": "image_url", "image_url": {"url": "secret.png"}}])))
    assert found.evidence == "no URL, 10 characters"


# -- calls and their answers --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        [calls("a", "b"), tool("b"), tool("a"), calls("c"), tool("c"), user("so?")],
        [calls("a"), tool("a"), tool("a")],  # an answer may come twice
        [calls("", "a"), tool(""), tool("a")],
        [calls(None, "a"), tool("x"), user("so?")],  # calls without ids can't be told apart
        [{"role": "assistant", "content": "Hi", "tool_calls": {}}, tool("x")],
        [{"role": "assistant", "content": "Hi", "tool_calls": None}, user("so?")],
        [calls("a", "a"), tool("a")],
    ],
)
def test_conversations_in_which_every_call_has_its_answer(messages: list[Any]) -> None:
    assert broken(chat(user("Hi"), *messages)) == {}


@pytest.mark.parametrize(
    ("messages", "rule", "pointer"),
    [
        ([tool("a")], "orphan", "/1/tool_call_id"),
        ([calls("a"), tool("a"), calls("b"), tool("a")], "orphan", "/4/tool_call_id"),
        ([calls("a"), tool(None), user("so?")], "orphan", "/2/tool_call_id"),
        ([calls("a"), tool(["a"])], "orphan", "/2/tool_call_id"),
        ([calls("a"), tool("b"), user("so?")], "orphan", "/2/tool_call_id"),
        ([calls("a")], "unanswered", "/1/tool_calls"),
        ([calls("a", "b"), tool("a")], "unanswered", "/1/tool_calls"),
        ([calls("a"), user("wait"), tool("a")], "unanswered", "/1/tool_calls"),
        ([calls("a"), {"role": "assistant", "content": "Hi"}], "unanswered", "/1/tool_calls"),
    ],
)
def test_conversations_in_which_one_is_missing(
    messages: list[Any], rule: str, pointer: str
) -> None:
    """One fault, one rule: an answer under a wrong id is not also a call without an answer."""
    name = {"orphan": "tool-message-orphan", "unanswered": "tool-call-unanswered"}[rule]
    found = broken(chat(user("Hi"), *messages))
    assert found == {f"request.{name}": f"/messages{pointer}"}


def test_a_message_of_an_unknown_role_may_have_been_the_answer() -> None:
    odd = {"role": "tool_result", "content": "ok"}
    assert broken(chat(calls("a"), odd, user("so?"))) == {
        "request.message-role": "/messages/1/role"
    }


def test_the_evidence_says_how_many_calls_are_open() -> None:
    (found,) = asked(chat(calls("a", "b", "c"), tool("c"), user("so?")))
    assert found.evidence == "2 of 3 calls not answered"
