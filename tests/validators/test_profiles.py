"""A profile lowers what it knows of its vendor, nothing else, and is chosen by marks or by name."""

from __future__ import annotations

from typing import Any

import pytest

from teeline.validators.events import Closed, Found, Opened, Output
from teeline.validators.model import (
    Circumstances,
    Exchange,
    Marks,
    Place,
    Severity,
    Side,
    Unit,
    Violation,
)
from teeline.validators.policy import Policy
from teeline.validators.profiles import (
    NONE,
    Lowering,
    Markers,
    Profile,
    ProfileError,
    Profiles,
    Setting,
    check,
)
from teeline.validators.rules import register

RULES = register()
FINISH, DONE, INDEX = "chat.finish-unknown", "chatstream.done-missing", "chatstream.tool-index-type"
FAIL, WARN, INFO = Severity.FAIL, Severity.WARN, Severity.INFO

ACME = Profile(
    "acme",
    "Acme",
    names=("acme-old",),
    lower=(
        Lowering(FINISH, WARN, "its own word", words=frozenset({"worn_out"})),
        Lowering(INDEX, WARN, "whole", when=frozenset({"whole-entry"})),
        Lowering(DONE, WARN, "never sends it", models=("acme-2",)),
    ),
    markers=Markers(
        hosts=("acme.example", "-acme.example.org"),
        headers=(("x-acme", ""), ("server", "acme/")),
        fingerprints=("fp_acme",),
        ids=("acme-",),
        members=("x_acme",),
    ),
    aliases={"acme-chat": frozenset({"acme-2-flash"})},
    extensions=frozenset({"x_acme"}),
    notes={"chatstream.role-missing": "Acme is shy"},
)
OTHER = Profile("other", "Other", markers=Markers(headers=(("x-other", ""),)))


def violation(rule: str, *held: str, words: tuple[str, ...] = ()) -> Violation:
    return Violation(
        RULES[rule],
        RULES[rule].severity,
        RULES[rule].summary,
        Place(Side.RESPONSE, Unit.BODY),
        "",
        1.0,
        circumstances=Circumstances(frozenset(held), frozenset(words)),
    )


def judged(
    *violations: Violation, setting: str = "acme", severity: Any = None, **facts: Any
) -> list[tuple[str, Severity, str]]:
    """What the policy leaves of an exchange's violations, the same in Found and Closed."""
    exchange = Exchange(violations=list(violations), **facts)
    policy = Policy(
        RULES, severity=severity, profiles=Profiles([ACME, OTHER], default=Setting(setting))
    )
    outputs: list[Output] = [Opened(exchange), *(Found(exchange, v) for v in violations)]
    seen = policy.apply([*outputs, Closed(exchange)])
    found = [output.violation for output in seen if isinstance(output, Found)]
    assert found == exchange.violations
    return [(v.rule.id, v.severity, v.note) for v in found]


def lowered(*violations: Violation, **facts: Any) -> list[Severity]:
    return [severity for _, severity, _ in judged(*violations, **facts)]


def test_a_known_word_is_lowered_and_the_note_says_by_whom_and_why() -> None:
    assert judged(violation(FINISH, words=("worn_out",))) == [
        (FINISH, WARN, "fail lowered to warn by profile acme: its own word")
    ]


@pytest.mark.parametrize("words", [(), ("other",), ("worn_out", "other")])
def test_any_other_word_keeps_its_severity(words: tuple[str, ...]) -> None:
    assert judged(violation(FINISH, words=words)) == [(FINISH, FAIL, "")]


def test_a_condition_must_have_held() -> None:
    assert lowered(violation(INDEX, "whole-entry")) == [WARN]
    assert lowered(violation(INDEX)) == [FAIL]


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        ({"model": "acme-2-large"}, WARN),
        ({"response_model": "Acme/ACME-2"}, WARN),
        ({"model": "acme-1"}, FAIL),
        ({}, FAIL),
    ],
)
def test_a_lowering_for_some_models_holds_for_those(
    facts: dict[str, Any], severity: Severity
) -> None:
    assert lowered(violation(DONE), **facts) == [severity]


def test_rules_that_the_profile_does_not_know_stay() -> None:
    assert lowered(violation("http.html-200"), violation("chat.finish-foreign")) == [FAIL, FAIL]


def test_an_alias_is_no_substitution() -> None:
    substituted = violation("cross.model-substituted")
    asked = {"model": "acme/Acme-Chat", "response_model": "acme-2-flash"}
    assert judged(substituted, **asked) == []
    assert lowered(substituted, model="acme-chat", response_model="gpt-4o") == [WARN]
    assert lowered(substituted, response_model="acme-2-flash") == [WARN]
    assert lowered(substituted, setting=NONE, **asked) == [WARN]


def test_the_user_s_own_severity_wins_over_the_profile() -> None:
    word = violation(FINISH, words=("worn_out",))
    assert judged(word, severity={"chat": FAIL}) == [(FINISH, FAIL, "")]
    assert judged(word, severity={FINISH: INFO}) == [(FINISH, INFO, "")]


def test_notes_explain_and_change_nothing() -> None:
    assert judged(violation("chatstream.role-missing")) == [
        ("chatstream.role-missing", WARN, "Acme is shy")
    ]


def test_extensions_are_named_as_such_where_all_of_them_are_known() -> None:
    rule = "chat.unknown-field"
    assert judged(violation(rule, words=("x_acme",))) == [(rule, INFO, "known extensions of Acme")]
    assert judged(violation(rule, words=("x_acme", "y"))) == [(rule, INFO, "")]


# -- which profile -----------------------------------------------------------------------------


def chosen(marks: Marks, *, upstream: str = "", **settings: Setting) -> tuple[str, str]:
    exchange = Exchange(upstream=upstream, marks=marks)
    Profiles([ACME, OTHER], settings).choose(exchange)
    return exchange.profile, exchange.profile_reason


@pytest.mark.parametrize(
    ("marks", "reason"),
    [
        (Marks(host="acme.example"), "host acme.example"),
        (Marks(host="api.ACME.example"), "host acme.example"),
        (Marks(host="eu-west-acme.example.org"), "host acme.example.org"),
        (Marks(headers=(("X-Acme", "1"),)), "header x-acme"),
        (Marks(headers=(("Server", "Acme/2"),)), "header server"),
        (Marks(fingerprint="fp_acme_1"), "fingerprint fp_acme"),
        (Marks(id="acme-1"), "id acme-"),
        (Marks(members=frozenset({"id", "x_acme"})), "member x_acme"),
        (Marks(recorded="acme-old"), "recorded"),
    ],
)
def test_each_marker_is_enough_and_is_named(marks: Marks, reason: str) -> None:
    assert chosen(marks) == ("acme", reason)


@pytest.mark.parametrize(
    "marks",
    [
        Marks(),
        Marks(host="notacme.example"),
        Marks(host="acme.example.evil"),
        Marks(headers=(("server", "nginx"), ("x-acme-2", "1"))),
        Marks(fingerprint="xfp_acme", id="xacme-"),
        Marks(recorded="gone"),
    ],
)
def test_what_only_looks_alike_is_no_marker(marks: Marks) -> None:
    assert chosen(marks) == ("", "")


def test_marks_of_two_vendors_choose_none_and_say_so() -> None:
    marks = Marks(headers=(("x-other", "1"), ("x-acme", "1")))
    name, reason = chosen(marks)
    assert name == ""
    assert reason == "none: marks of acme (header x-acme) and other (header x-other)"


def test_a_mark_that_shows_later_is_taken_into_account() -> None:
    exchange = Exchange(marks=Marks(headers=(("x-acme", ""),)))
    profiles = Profiles([ACME, OTHER])
    assert profiles.choose(exchange) is ACME
    exchange.marks.headers += (("x-other", ""),)
    assert profiles.choose(exchange) is None
    assert exchange.profile == ""


def test_a_configured_profile_wins_over_marks() -> None:
    marks = Marks(headers=(("x-other", "1"),))
    assert chosen(marks, upstream="a", a=Setting("acme-old")) == ("acme", "configured")
    assert chosen(marks, upstream="b", a=Setting("acme")) == ("other", "header x-other")
    assert chosen(marks, upstream="a", a=Setting(NONE)) == ("", "")


def test_the_host_of_an_upstream_is_a_mark_of_its_answers() -> None:
    """A client's absolute target names the proxy, so the configured host wins."""
    marks = Marks(host="127.0.0.1")
    assert chosen(marks, upstream="a", a=Setting(host="api.acme.example"))[0] == "acme"


def test_a_setting_that_names_no_profile_is_an_error_that_names_it() -> None:
    with pytest.raises(ProfileError, match="no profile is called acne"):
        Profiles([ACME], {"a": Setting("acne")})
    with pytest.raises(ProfileError, match="acne"):
        Profiles([ACME], default=Setting("acne"))


# -- what makes a profile wrong -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("lowering", "text"),
    [
        (Lowering("chat.nothing", WARN, ""), "no rule is called chat.nothing"),
        (Lowering(FINISH, FAIL, ""), "is fail, fail is not below"),
        (Lowering("chat.id-empty", FAIL, ""), "is warn, fail is not below"),
        (Lowering("chat.finish-foreign", WARN, ""), "is never lowered"),
        (Lowering("chatstream.finish-foreign", INFO, ""), "is never lowered"),
        (Lowering(DONE, WARN, "", when=frozenset({"rain"})), "no condition is called rain"),
        (Lowering(DONE, WARN, "", when=frozenset({"whole-entry"})), "is not known for"),
        (Lowering(DONE, WARN, "", words=frozenset({"x"})), "words of chatstream.done-missing"),
    ],
)
def test_a_lowering_that_could_never_be_right_is_refused(lowering: Lowering, text: str) -> None:
    with pytest.raises(ProfileError, match=text):
        check(Profile("x", "X", lower=(lowering,)), RULES)


def test_a_note_on_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ProfileError, match=r"no rule is called chat\.nothing"):
        check(Profile("x", "X", notes={"chat.nothing": "x"}), RULES)


def test_a_right_profile_passes() -> None:
    check(ACME, RULES)
