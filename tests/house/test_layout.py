"""The house keeps its shape: packages are packed, tests mirror the source, layers hold."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAYERS = ("validators", "config", "proxy")
PURE_FORBIDDEN = frozenset(
    (
        *("asyncio", "socket", "ssl", "threading", "subprocess", "time", "random", "os", "pathlib"),
        *("sqlite3", "aiohttp", "opentelemetry", "yaml", "logging"),
    )
)


def modules(folder: str) -> list[Path]:
    return sorted(p for p in (ROOT / folder).rglob("*.py") if p.stat().st_size > 0)


def packages_on_disk() -> set[str]:
    found = {p.parent for layer in LAYERS for p in (ROOT / layer).rglob("__init__.py")}
    return {"teeline." + ".".join(p.relative_to(ROOT).parts) for p in found}


def test_every_package_is_in_the_wheel() -> None:
    """The list in pyproject.toml is explicit: a forgotten package works in a checkout only."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["tool"]["setuptools"]["packages"]) == packages_on_disk()


def test_every_layer_is_typed() -> None:
    assert all((ROOT / layer / "py.typed").is_file() for layer in LAYERS)


@pytest.mark.parametrize("module", modules("validators"), ids=lambda p: str(p.relative_to(ROOT)))
def test_validators_are_pure(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imported = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported & PURE_FORBIDDEN == set()


@pytest.mark.parametrize("layer", LAYERS)
def test_every_module_opens_with_what_belongs_in_it(layer: str) -> None:
    silent = [
        p
        for p in modules(layer)
        if ast.get_docstring(ast.parse(p.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


@pytest.mark.parametrize("layer", LAYERS)
def test_tests_mirror_the_source(layer: str) -> None:
    """proxy/audit/chain.py is tested in tests/proxy/audit/test_chain.py."""
    tests = [p.relative_to(ROOT / "tests") for p in (ROOT / "tests" / layer).rglob("test_*.py")]
    sources = {p.relative_to(ROOT) for p in (ROOT / layer).rglob("*.py")}
    stray = [
        t
        for t in tests
        if t.parent / t.name.removeprefix("test_") not in sources
        and not _tests_the_package(t, sources)
    ]
    assert stray == []


def _tests_the_package(test: Path, sources: set[Path]) -> bool:
    """A test of several modules is named after their package, or marked as crossing modules."""
    crossing = {
        "test_faults.py",
        "test_faults_process.py",
        "test_transcripts.py",
        "test_cases.py",
        "test_cuts.py",
        "test_hostile.py",
        "test_price.py",
    }
    name = test.name.removeprefix("test_").removesuffix(".py")
    return test.name in crossing or test.parent / name / "__init__.py" in sources


def test_no_file_outgrows_one_room() -> None:
    large = [
        f"{p.relative_to(ROOT)}: {count}"
        for layer in LAYERS
        for p in modules(layer)
        if (count := len(p.read_text(encoding="utf-8").splitlines())) > 600
    ]
    assert large == []
