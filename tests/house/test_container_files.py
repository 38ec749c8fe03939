"""The container files say what the documentation says, and run only what they name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from teeline.config.load import Setting, load
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


OURS = ("relay", "teeline", "client", "serve", "replica")
URL = "https://relay.example/v1"


def test_compose_is_what_its_specification_says() -> None:
    """By the specification's own schema; no engine has to be there for that."""
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, "docker-compose.yml"], cwd=_ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_compose_starts_the_whole_demo_and_the_rest_only_on_demand() -> None:
    """``docker compose up`` needs no setting; what needs a relay of one's own waits for one."""
    services = _services()
    at_once = {name for name, service in services.items() if "profiles" not in service}
    observers = {"collector", "jaeger", "prometheus", "loki", "grafana"}
    assert at_once == {"relay", "teeline", "client", *observers}
    assert {p for s in services.values() for p in s.get("profiles", [])} == {"serve", "scale"}
    for name in ("serve", "replica"):
        assert any("TEELINE_UPSTREAM" in word for word in services[name]["command"])


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_runs_a_command_line_that_exists(name: str) -> None:
    """An option that was renamed here would otherwise be found by the first user."""
    commands = {"demo": demo, "serve": serve}
    word, *arguments = _services()[name]["command"]
    filled = [
        URL if argument.startswith("${TEELINE_UPSTREAM") else argument for argument in arguments
    ]
    context = commands[word].make_context(word, filled)
    if word == "serve":
        assert context.params["upstream"].startswith("http")


@pytest.mark.parametrize("name", ["teeline", "replica"])
def test_the_settings_of_a_service_are_settings(name: str) -> None:
    """The variables make a configuration, with the admin port behind a token that is made there."""
    service = _services()[name]
    environ = {key: str(value) for key, value in service["environment"].items()}
    _, *arguments = service["command"]
    filled = [URL if argument.startswith("${") else argument for argument in arguments]
    params = serve.make_context("serve", filled).params
    flags = [
        Setting(("upstreams",), [{"url": params["upstream"]}], "--upstream"),
        Setting(("admin", "listen"), params["admin"], "--admin"),
    ]
    config = load(None, environ, flags)
    assert config.admin.token_file == Path("/data/admin-token")


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_may_write_its_data_alone(name: str) -> None:
    service = _services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    for volume in service.get("volumes", []):
        assert volume.partition(":")[0] in _compose()["volumes"]
        assert volume.endswith(":/data")


def test_everything_is_published_on_loopback() -> None:
    """A proxy that forwards keys is reachable from this machine only, unless someone changes it."""
    for service in _services().values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))


def test_no_image_floats() -> None:
    """Neither ``latest`` nor a missing tag: what ran yesterday runs today."""
    for name, service in _services().items():
        if name in OURS:
            assert re.fullmatch(r"teeline:\d+\.\d+\.\d+", service["image"])
            assert service["build"] == "."
        else:
            assert re.fullmatch(r"[a-z0-9./-]+:v?\d+\.\d+(\.\d+)?", service["image"]), name


def test_every_file_that_is_mounted_is_there() -> None:
    mounts = [m for service in _services().values() for m in service.get("volumes", [])]
    files = [mount.split(":") for mount in mounts if mount.startswith("./")]
    assert len(files) >= 7
    for source, _, mode in files:
        assert (_ROOT / source).is_file(), source
        assert mode == "ro"


def test_what_a_file_names_is_a_service() -> None:
    """Configurations reach each other by the names of services, at the ports these listen on."""
    services = _services()
    for file in (_ROOT / "deploy").rglob("*.yaml"):
        for name in re.findall(r"http://([a-z-]+):\d+", file.read_text(encoding="utf-8")):
            assert name in services, (file.name, name)
    balancer = (_ROOT / "deploy" / "haproxy.cfg").read_text(encoding="utf-8")
    (target, port, health) = re.findall(
        r"server-template \w+ \d+ (\w+):(\d+) check port (\d+)", balancer
    )[0]
    words = " ".join(services[target]["command"])
    assert f":{port}" in words and f":{health}" in words


def test_a_pipeline_of_the_collector_names_what_is_configured() -> None:
    config = yaml.safe_load((_ROOT / "deploy" / "collector.yaml").read_text(encoding="utf-8"))
    assert set(config["service"]["pipelines"]) == {"traces", "metrics", "logs"}
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline[kind]) <= set(config[kind])


def test_what_a_service_waits_for_can_get_well() -> None:
    """A dependency on health is one on a service that has a health check."""
    services = _services()
    for name, service in services.items():
        depends = service.get("depends_on", {})
        for other in depends:
            assert other in services, (name, other)
            if isinstance(depends, dict) and depends[other]["condition"] == "service_healthy":
                assert services[other]["healthcheck"].get("test"), (name, other)


def test_the_image_s_tag_is_the_project_s_version() -> None:
    """A release that forgets one of the two is found here."""
    project = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "([^"]+)"', project, re.MULTILINE)
    assert version is not None
    assert _services()["teeline"]["image"] == f"teeline:{version[1]}"


def test_the_image_asks_itself_whether_it_is_well() -> None:
    """An orchestrator sees a proxy that hangs; the command and its options exist."""
    (check,) = _arguments("HEALTHCHECK")
    words = yaml.safe_load(check.partition(" CMD ")[2])
    assert words[0] == "teeline"
    assert words[1] == healthcheck.name
    healthcheck.make_context("healthcheck", words[2:])
    assert _services()["relay"]["healthcheck"] == {"disable": True}
    probe, program, name, *arguments = _services()["serve"]["healthcheck"]["test"]
    assert (probe, program, name) == ("CMD", "teeline", healthcheck.name)
    url = healthcheck.make_context("healthcheck", arguments).params["url"]
    assert url == f"http://{AdminConfig().listen}/readyz"
