"""The container files say what the documentation says, and run only what they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from teeline.config.model import AdminConfig
from teeline.proxy.cli.demo import command as demo
from teeline.proxy.cli.healthcheck import command as healthcheck
from teeline.proxy.cli.serve import command as serve

_ROOT = Path(__file__).parents[2]


def _dockerfile() -> list[tuple[str, str]]:
    """Instructions with their arguments, continued lines joined, comments left out."""
    text = (_ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(w, rest) for w, _, rest in (s.partition(" ") for s in joined.splitlines() if s)]


def _arguments(word: str) -> list[str]:
    return [rest for instruction, rest in _dockerfile() if instruction == word]


def _compose() -> dict[str, Any]:
    document = yaml.safe_load((_ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def _services() -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = _compose()["services"]
    return services


def test_every_base_image_is_pinned_to_a_minor_version() -> None:
    """A build of today and one of next year start from the same Python."""
    images = [argument.split()[0] for argument in _arguments("FROM")]
    assert len(images) == 2
    assert all(re.fullmatch(r"python:3\.\d+-slim-[a-z]+", image) for image in images)


def test_the_image_runs_teeline_as_nobody_in_particular() -> None:
    """A numeric user other than root, set after the last thing that needs root."""
    (user,) = _arguments("USER")
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    words = [word for word, _ in _dockerfile()]
    assert "RUN" not in words[words.index("USER") :]
    assert _arguments("ENTRYPOINT") == ['["teeline"]']


def test_everything_that_the_image_copies_is_let_into_the_build() -> None:
    """The ignore file lists what goes in; a folder that it forgets would break the build."""
    copied = [a.split()[:-1] for a in _arguments("COPY") if not a.startswith("--from")]
    names = {name for names in copied for name in names}
    ignore = (_ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignore
    assert names == {line[1:] for line in ignore if line.startswith("!")}
    assert {"proxy", "config", "validators"} <= names


def test_compose_starts_the_demo_and_serve_only_on_demand() -> None:
    """``docker compose up`` needs no setting; the proxy for a relay of one's own waits for one."""
    services = _services()
    assert set(services) == {"demo", "serve"}
    assert "profiles" not in services["demo"]
    assert services["serve"]["profiles"] == ["serve"]
    assert any("TEELINE_UPSTREAM" in word for word in services["serve"]["command"])


def test_compose_s_demo_is_a_command_line_that_the_demo_takes() -> None:
    """An option that was renamed here would otherwise be found by the first user."""
    name, *arguments = _services()["demo"]["command"]
    assert name == demo.name
    context = demo.make_context("demo", list(arguments))
    assert context.params["stay"] is True
    assert context.params["host"] == "0.0.0.0"
    assert str(context.params["audit_dir"]).startswith("/data/")


def test_compose_s_serve_is_a_command_line_that_serve_takes() -> None:
    """With a URL in the environment's place, every option of it is known."""
    name, *arguments = _services()["serve"]["command"]
    assert name == serve.name
    url = "https://relay.example/v1"
    filled = [url if word.startswith("${TEELINE_UPSTREAM") else word for word in arguments]
    assert serve.make_context("serve", filled).params["upstream"] == url


@pytest.mark.parametrize("name", ["demo", "serve"])
def test_a_service_is_published_on_loopback_and_may_write_its_data_alone(name: str) -> None:
    """A proxy that forwards keys is reachable from this machine only, unless someone changes it."""
    service = _services()[name]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    (volume,) = service["volumes"]
    assert volume.partition(":")[0] in _compose()["volumes"]
    assert volume.endswith(":/data")


def test_no_image_floats() -> None:
    """Neither ``latest`` nor a missing tag: what ran yesterday runs today."""
    for service in _services().values():
        assert re.fullmatch(r"teeline:\d+\.\d+\.\d+", service["image"])
        assert service["build"] == "."


def test_the_image_s_tag_is_the_project_s_version() -> None:
    """A release that forgets one of the two is found here."""
    project = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "([^"]+)"', project, re.MULTILINE)
    assert version is not None
    assert _services()["demo"]["image"] == f"teeline:{version[1]}"


def test_the_image_asks_itself_whether_it_is_well() -> None:
    """An orchestrator sees a proxy that hangs; the command and its options exist."""
    (check,) = _arguments("HEALTHCHECK")
    words = yaml.safe_load(check.partition(" CMD ")[2])
    assert words[0] == "teeline"
    assert words[1] == healthcheck.name
    healthcheck.make_context("healthcheck", words[2:])
    assert _services()["demo"]["healthcheck"] == {"disable": True}
    probe, program, name, *arguments = _services()["serve"]["healthcheck"]["test"]
    assert (probe, program, name) == ("CMD", "teeline", healthcheck.name)
    url = healthcheck.make_context("healthcheck", arguments).params["url"]
    assert url == f"http://{AdminConfig().listen}/readyz"
