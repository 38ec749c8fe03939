"""Every value knows where it was written, whatever was written."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.config.tree import (
    ConfigError,
    Setting,
    Tree,
    from_environment,
    from_settings,
    from_yaml,
    merge,
    shown,
)


def plain(tree: Tree) -> Any:
    if isinstance(tree.value, dict):
        return {key: plain(entry.tree) for key, entry in tree.value.items()}
    if isinstance(tree.value, list):
        return [plain(item) for item in tree.value]
    return tree.value


def test_values_keep_their_type_and_place() -> None:
    tree = from_yaml("a: 1\nb:\n  - x\n  - {c: true}\n", "t.yaml")
    assert plain(tree) == {"a": 1, "b": ["x", {"c": True}]}
    assert tree.value["a"].where == "t.yaml:1:1"
    assert tree.value["a"].tree.where == "t.yaml:1:4"
    assert tree.value["b"].tree.value[1].value["c"].where == "t.yaml:4:6"


def test_an_empty_file_sets_nothing() -> None:
    assert plain(from_yaml("# nothing\n", "t.yaml")) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "t.yaml:1:5: is not YAML: expected the node content, but found '<stream end>'"),
        ("a: 1\na: 2", "t.yaml:2:1: key `a` stands here twice"),
        ("? [x]\n: 1", "t.yaml:1:3: a key is a word"),
        ("a: !!python/object:os.system x", "t.yaml:1:4: is no value that YAML knows"),
        ("a: 2026-99-99", "t.yaml:1:4: is no value that YAML knows"),
        ("a: &a [*a]", "t.yaml:1:4: is nested too deeply, or an alias holds itself"),
        ("a: \x07", "t.yaml: is not YAML: it holds a character that YAML forbids"),
        ("a: 1\n---\nb: 2", "t.yaml:2:1: is not YAML: but found another document"),
        ("x" * (1 << 20) + "x", "t.yaml: is larger than a mebibyte; this is no configuration"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_yaml(text, "t.yaml")
    assert str(caught.value) == problem


def test_aliases_that_multiply_cost_no_more_than_they_are_written() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 14)]
    assert len(from_yaml("\n".join(lines), "t.yaml").value) == 14


def test_a_mapping_is_laid_over_key_by_key_and_anything_else_replaced() -> None:
    below = from_yaml("a: {x: 1, y: 2}\nb: [1, 2]\n", "below")
    above = from_yaml("a: {y: 3}\nb: [4]\nc: 5\n", "above")
    assert plain(merge(below, above)) == {"a": {"x": 1, "y": 3}, "b": [4], "c": 5}
    assert merge(below, above).value["a"].tree.value["x"].where == "below:1:5"


def test_variables_become_keys_and_their_values_are_yaml() -> None:
    environ = {
        "TEELINE__AUDIT__DIR": "/var/log/x",
        "TEELINE__AUDIT__ENABLED": "false",
        "TEELINE__UPSTREAMS": "[{url: 'http://h'}]",
        "TEELINE__LISTEN": "",
        "TEELINE_CONFIG": "not ours",
        "PATH": "/bin",
    }
    tree = from_environment(environ)
    assert plain(tree) == {
        "audit": {"dir": "/var/log/x", "enabled": False},
        "upstreams": [{"url": "http://h"}],
        "listen": "",
    }
    assert tree.value["audit"].tree.value["dir"].tree.where == "TEELINE__AUDIT__DIR"


def test_flags_become_keys_and_name_themselves() -> None:
    flags = (
        Setting(("audit", "dir"), "a", "--audit-dir"),
        Setting(("upstreams",), [{"url": "http://h"}], "--upstream"),
    )
    tree = from_settings(flags)
    assert plain(tree) == {"audit": {"dir": "a"}, "upstreams": [{"url": "http://h"}]}
    assert tree.value["upstreams"].tree.value[0].value["url"].tree.where == "--upstream"


def test_a_word_in_an_error_cannot_reach_the_terminal_raw() -> None:
    assert shown("\x1b[31m\u202e") == "\\x1b[31m\\u202e"
    assert len(shown("x" * 1000)) == 60
