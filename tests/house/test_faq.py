"""The questions name what the code says."""

from __future__ import annotations

import re

from teeline.proxy.demo.scenarios import SCENARIOS
from tests.clients.test_demo_relay import RAISES
from tests.house.pages import DOCS, ROOT

FAQ = " ".join((DOCS / "faq.md").read_text(encoding="utf-8").split())
_PARTIAL = re.compile(r"""(?:partial|_give_up)\("([a-z-]+)"\)""")
_FAILED = re.compile(r"""(?:failed|unchecked)(?:=|": )"([a-z-]+)\"""")


def said() -> set[str]:
    """Each reason for which the code calls an inspection partial."""
    found: set[str] = set()
    for layer in ("validators", "proxy"):
        for file in sorted((ROOT / layer).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            found.update(_PARTIAL.findall(text))
            kind = "schema" if "schema" in file.name else "inspection"
            pools = file.name in ("schemapool.py", "schemaworker.py", "inspectpool.py")
            found.update(f"{kind}-{reason}" for reason in _FAILED.findall(text) if pools)
    return found


def test_every_reason_for_a_partial_inspection_is_explained() -> None:
    reasons = said()
    assert len(reasons) > 20
    assert {"body-limit", "schema-too-large", "inspection-busy", "websocket"} <= reasons
    assert sorted(reason for reason in reasons if f"`{reason}`" not in FAQ) == []


def test_the_faults_that_an_sdk_notices_are_as_many_as_the_page_says() -> None:
    faults = [scenario for scenario in SCENARIOS if scenario.expected]
    words = {3: "three"}
    assert f"of the {len(faults)} faults in the demo" in FAQ
    assert f"lets a program know of {words[len(RAISES)]}" in FAQ
