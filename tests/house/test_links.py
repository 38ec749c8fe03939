"""Every relative link of the documentation leads somewhere."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.house.pages import ROOT, anchors, links, pages


def broken(page: Path) -> list[str]:
    """The links of a page whose file or anchor is missing; other sites are not asked."""
    return [target for target in links(page) if not _leads_somewhere(page, target)]


def _leads_somewhere(page: Path, target: str) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    path = page.parent / unquote(parts.path) if parts.path else page
    if not path.exists():
        return False
    return not parts.fragment or (path.suffix == ".md" and parts.fragment in anchors(path))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_anchor_exists(page: Path) -> None:
    assert broken(page) == []


def test_every_page_of_docs_can_be_reached_from_the_readme() -> None:
    """A page that nothing leads to is not found by whoever needs it."""
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or page.suffix != ".md" or not page.is_file():
            continue
        reached.add(page)
        targets = (urlsplit(target) for target in links(page))
        waiting += [(page.parent / t.path).resolve() for t in targets if t.path and not t.scheme]
    assert {str(p.relative_to(ROOT)) for p in set(pages()) - reached} == set()


def test_a_missing_file_and_a_missing_anchor_are_found(tmp_path: Path) -> None:
    """What the test above would say of a page that has both, and of one that is right."""
    (tmp_path / "there.md").write_text("# One `two` & three\n\n# Same\n\n# Same\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[a](there.md) [b](there.md#one-two--three) [c](there.md#same-1) [d](https://h/x#y)\n"
        "[e](gone.md) [f](there.md#four) [g](#nowhere)\n\n    [code](gone.md)\n\n![i](gone.png)\n"
    )
    assert broken(page) == ["gone.md", "there.md#four", "#nowhere", "gone.png"]
