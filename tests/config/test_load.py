"""From file, environment and flags to one configuration, or to lines that say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from teeline.config.load import ConfigError, Setting, load
from teeline.config.model import (
    AUTO_WORKERS,
    FROM_ENVIRONMENT,
    AuditConfig,
    CaptureConfig,
    ClientsConfig,
    Config,
    InspectPoolConfig,
    ListenAddress,
    ListenTLS,
    NnrpConfig,
    ProxyURL,
    SchemaConfig,
    Timeouts,
    UpstreamConfig,
    UpstreamTLS,
    UpstreamURL,
)
from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Severity

UPSTREAM = Setting(("upstreams",), [{"url": "https://relay.example/v1"}], "--upstream")
RELAY = UpstreamConfig(UpstreamURL.parse("https://relay.example/v1"))
DEFAULT_YAML = Path(__file__).parents[2] / "config" / "default.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "teeline.yaml"


def problems(file: Path | None, text: str = "", **environ: str) -> list[str]:
    """What is wrong, with the file under its name alone."""
    if file is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load(None if file is None else str(file), environ, [UPSTREAM] if not text else [])
    return [str(p).replace(f"{file}", "teeline.yaml") for p in caught.value.problems]


def test_an_upstream_alone_is_enough() -> None:
    assert load(flags=[UPSTREAM]) == Config(upstreams=(RELAY,))


def test_without_an_upstream_the_line_says_how_to_give_one() -> None:
    with pytest.raises(
        ConfigError, match=r"^no upstream: give --upstream URL, or `upstreams` in a"
    ):
        load()


def test_the_file_of_defaults_says_what_the_defaults_are() -> None:
    assert load(str(DEFAULT_YAML), flags=[UPSTREAM]) == load(flags=[UPSTREAM])


def test_the_example_in_the_file_of_defaults_can_be_used(file: Path) -> None:
    lines = DEFAULT_YAML.read_text(encoding="utf-8").splitlines()
    start = lines.index("# upstreams:")
    example = [line.removeprefix("# ") for line in lines[start:] if line.startswith("# ")]
    file.write_text("\n".join(example), encoding="utf-8")
    tls = UpstreamTLS(
        Path("authorities.pem"), Path("client.pem"), Path("client.key"), "relay.internal"
    )
    assert load(str(file)).upstreams == (
        UpstreamConfig(RELAY.url, "relay", timeouts=Timeouts(connect=10.0), tls=tls),
    )


def test_every_setting_can_be_set(file: Path) -> None:
    file.write_text(
        """
listen: 0.0.0.0:9000
upstreams:
  - {name: a, url: http://a.example/v1, timeouts: {connect: 1, first_byte: 2.5, idle: 3, total: null}}
  - {name: b, url: http://b.example, prefix: /b, proxy: env}
  - name: c
    url: https://c.example
    listen: "[::1]:9001"
    tls: {ca: ca.pem, cert: c.pem, key: c.key, server_name: c.internal, verify: true}
    proxy: http://me:s3cret@proxy.example:3128
listen_tls: {cert: server.pem, key: server.key}
clients: {connections: 10, exchanges: 5, head: 1000, head_timeout: null}
rules: {select: [chatstream, http.truncated], ignore: [chatstream.*], severity: {sse: info}}
limits: {body: 1000, depth: 5}
audit: {enabled: false, dir: /var/log/teeline}
shutdown: {deadline: 0}
schema: {timeout: 0.5, processes: 2, queue: 3, memory: 4}
inspect_pool: {processes: 2, queue: 3, memory: 4, timeout: 5, patience: 6}
nnrp: {capabilities: caps.json}
workers: 7
""",
        encoding="utf-8",
    )
    config = load(str(file))
    assert config.listen == ListenAddress("0.0.0.0", 9000)
    a, b, c = config.upstreams
    assert a.timeouts == Timeouts(connect=1.0, first_byte=2.5, idle=3.0, total=None)
    assert (b.prefix, c.listen) == ("/b", ListenAddress("::1", 9001))
    assert c.tls == UpstreamTLS(Path("ca.pem"), Path("c.pem"), Path("c.key"), "c.internal")
    assert (a.proxy, b.proxy) == (None, FROM_ENVIRONMENT)
    assert c.proxy == ProxyURL("http", "proxy.example", 3128, "me:s3cret")
    assert config.listen_tls == ListenTLS(Path("server.pem"), Path("server.key"))
    assert config.clients == ClientsConfig(10, 5, 1000, None)
    assert config.rules.select == ("chatstream", "http.truncated")
    assert config.rules.ignore == ("chatstream.*",)
    assert config.rules.severity == {"sse": Severity.INFO}
    assert config.limits == Limits(body=1000, depth=5)
    assert config.limits.line == DEFAULT_LIMITS.line
    assert config.audit == AuditConfig(enabled=False, dir=Path("/var/log/teeline"))
    assert config.shutdown.deadline == 0.0
    assert config.schema == SchemaConfig(0.5, 2, 3, 4)
    assert config.inspect_pool == InspectPoolConfig(2, 3, 4, 5.0, 6.0)
    assert config.nnrp == NnrpConfig(Path("caps.json"))
    assert config.workers == 7


def test_workers_may_be_as_many_as_there_are_processors() -> None:
    assert load(environ={"TEELINE__WORKERS": "auto"}, flags=[UPSTREAM]).workers == AUTO_WORKERS


def test_flags_win_over_the_environment_and_that_over_the_file(file: Path) -> None:
    file.write_text(
        "listen: h:1\naudit: {dir: file}\nshutdown: {deadline: 1}\n"
        "upstreams: [{url: http://file.example}]\n",
        encoding="utf-8",
    )
    environ = {"TEELINE__LISTEN": "h:2", "TEELINE__AUDIT__DIR": "env"}
    config = load(str(file), environ, [Setting(("listen",), "h:3", "--listen"), UPSTREAM])
    assert config.listen.port == 3
    assert config.audit.dir == Path("env")
    assert config.shutdown.deadline == 1.0
    assert config.upstreams == (RELAY,)


def test_unknown_keys_are_all_named_with_their_place_and_the_nearest_known(file: Path) -> None:
    text = "upsteams: []\nupstreams:\n  - url: http://h\n    timeouts: {conect: 1}\nzzz: 1\n"
    assert problems(file, text) == [
        "teeline.yaml:1:1: unknown key `upsteams`, did you mean `upstreams`?",
        "teeline.yaml:4:16: unknown key `conect`, did you mean `connect`?",
        "teeline.yaml:5:1: unknown key `zzz`",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("listen: 1", "1:9: `listen`: is a number, not text"),
        ("audit: [1]", "1:8: is a list, not a mapping"),
        ("- a", "1:1: is a list, not a mapping"),
        ("upstreams: http://h", "1:12: `upstreams`: is text, not a list"),
        ("upstreams: [http://h]", "1:13: is text, not a mapping"),
        ("upstreams: [{name: a}]", "1:13: an upstream needs a `url`"),
        ("upstreams: [{url: http://h, name: 'a b'}]", "1:13: a name is 1 to 64 letters, digits"),
        ("audit: {enabled: 1}", "1:18: `enabled`: is a number, not true or false"),
        ("audit: {enabled: 'yes'}", "1:18: `enabled`: is text, not true or false"),
        ("audit: {dir: 2026-11-30}", "1:14: `dir`: is a date, not text"),
        ("shutdown: {deadline: -1}", "1:22: `deadline`: is not a number of seconds"),
        ("shutdown: {deadline: .nan}", "1:22: `deadline`: is not a number of seconds"),
        ("shutdown: {deadline: true}", "1:22: `deadline`: is not a number of seconds"),
        ("limits: {body: 0}", "1:16: `body`: is not a whole number above 0"),
        ("limits: {body: 1.5}", "1:16: `body`: is not a whole number above 0"),
        ("rules: {select: chat}", "1:17: `select`: is text, not a list"),
        ("rules: {severity: [a]}", "1:19: `severity`: is a list, not a mapping"),
        ("rules: {severity: {sse: bad}}", "1:19: `severity`: unknown severity 'bad'"),
        (
            "rules: {ignore: [chatstraem.*]}",
            "1:17: `ignore`: unknown rule `chatstraem.*`, did you mean `chatstream`?",
        ),
        (
            "upstreams: [{url: http://h, timeouts: {idle: 0}}]",
            "1:46: `idle`: is 0 seconds; write null for no limit",
        ),
        ("upstreams: [{url: http://h, tls: {}}]", "1:13: `tls` is for upstreams with an https://"),
        (
            "upstreams: [{url: https://h, tls: {key: k}}]",
            "1:35: `tls` has a key without a cert",
        ),
        (
            "upstreams: [{url: https://h, proxy: socks5://sk-secret}]",
            "1:37: `proxy`: a proxy is `env`",
        ),
        ("workers: 0", "1:10: `workers`: is not a number from 1 to 256"),
        ("workers: 257", "1:10: `workers`: is not a number from 1 to 256"),
        ("workers: true", "1:10: `workers`: is true or false, not a whole number or auto"),
        ("workers: many", "1:10: `workers`: is text, not a whole number or auto"),
        ("listen_tls: {key: k}", "1:13: `listen_tls` needs a `cert`"),
        ("clients: {connections: 0}", "1:24: `connections`: is not a whole number above 0"),
        ("clients: {head_timeout: 0}", "1:25: `head_timeout`: is 0 seconds; write null"),
        ("upstreams: [{url: 'http://h/?sk-secret'}]", "1:19: `url`: the URL holds a query"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_place(
    file: Path, text: str, problem: str
) -> None:
    (line,) = problems(file, text)
    assert line.startswith(f"teeline.yaml:{problem}")
    assert "sk-secret" not in line


def test_the_capability_document_is_a_path_or_none(file: Path) -> None:
    variable = {"TEELINE__NNRP__CAPABILITIES": "other.json"}
    assert load(environ=variable, flags=[UPSTREAM]).nnrp.capabilities == Path("other.json")
    assert load(flags=[UPSTREAM]).nnrp.capabilities is None
    text = "upstreams: [{url: https://h}]\nnnrp: {capability: x}\n"
    (line,) = problems(file, text)
    assert line.startswith("teeline.yaml:2:8: ") and "capabilities" in line
    text = "upstreams: [{url: https://h}]\nnnrp: {capabilities: [x]}\n"
    (line,) = problems(file, text)
    assert line.startswith("teeline.yaml:2:") and "`capabilities`: is a list, not text" in line


def test_an_unknown_variable_is_named() -> None:
    (line,) = problems(None, TEELINE__SHUTDOWN__DEADLNE="3")
    expected = "TEELINE__SHUTDOWN__DEADLNE: unknown key `deadlne`, did you mean `deadline`?"
    assert line == expected


def test_a_flag_that_cannot_be_is_named_and_nothing_else() -> None:
    with pytest.raises(ConfigError, match=r"^--listen: a listen address is HOST:PORT"):
        load(flags=[UPSTREAM, Setting(("listen",), "8787", "--listen")])


def test_upstreams_that_collide_are_said_to_be_in_the_file(file: Path) -> None:
    (line,) = problems(file, "upstreams: [{url: http://a.example}, {url: http://b.example}]")
    assert line.startswith("teeline.yaml: upstreams a.example and b.example both answer at")


def test_a_file_that_cannot_be_read_is_one_line(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"teeline\.yaml: can't be read: No such file"):
        load(str(file))
    file.write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match=r"teeline\.yaml: is not UTF-8 text$"):
        load(str(file))
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load(str(file.parent))


@pytest.mark.parametrize("name", ["auto", "none", "mistral", "one-api"])
def test_an_upstream_may_name_its_vendor_s_profile(file: Path, name: str) -> None:
    file.write_text(f"upstreams: [{{url: http://h, profile: {name}}}]")
    assert load(str(file)).upstreams[0].profile == name


def test_an_upstream_without_a_profile_is_recognised_by_its_answers(file: Path) -> None:
    file.write_text("upstreams: [{url: http://h}]")
    assert load(str(file)).upstreams[0].profile == "auto"


def test_a_profile_that_nobody_knows_is_named_with_the_nearest(file: Path) -> None:
    (line,) = problems(file, "upstreams: [{url: http://h, profile: mistrall}]")
    assert line == (
        "teeline.yaml:1:38: `profile`: unknown profile `mistrall`, did you mean `mistral`?"
    )


def test_the_audit_log_and_capture_are_set_by_name(file: Path) -> None:
    file.write_text(
        "upstreams: [{name: a, url: 'https://relay.example/v1'}]\n"
        "audit: {keep_days: 30, keep_bytes: 5, file_bytes: 4, file_hours: 0.5, compress: false,\n"
        "  anchor: /x/anchor, fingerprint_secret_file: /x/secret, index: false}\n"
        "capture: {when: fail, rules: [chatstream], upstreams: [a], max_bytes: 3, memory: 2,\n"
        "  keep_days: 1, keep_bytes: 1}\n",
        encoding="utf-8",
    )
    config = load(str(file))
    assert config.audit == AuditConfig(
        keep_days=30,
        keep_bytes=5,
        file_bytes=4,
        file_hours=0.5,
        compress=False,
        anchor=Path("/x/anchor"),
        fingerprint_secret_file=Path("/x/secret"),
        index=False,
    )
    assert config.audit.secret_file == Path("/x/secret")
    assert AuditConfig(dir=Path("d")).secret_file == Path("d/fingerprint-secret")
    assert config.capture == CaptureConfig("fail", ("chatstream",), ("a",), 3, 2, 1, 1)
    assert config.capture.enabled
    assert not CaptureConfig().enabled


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("capture: {when: sometimes}", "`when`: is not one of never, fail, warn, always"),
        ("capture: {rules: [chatsteam]}", "did you mean `chatstream`?"),
        ("capture: {upstreams: [b]}", "`capture.upstreams` names b, which is no upstream"),
        ("audit: {keep_days: 0}", "is not a number above 0"),
    ],
)
def test_what_can_not_be_kept_is_one_line(file: Path, text: str, words: str) -> None:
    upstream = "upstreams: [{name: a, url: 'https://relay.example/v1'}]\n"
    (problem,) = problems(file, upstream + text)
    assert words in problem


@pytest.mark.parametrize("written", ["off", "false", "null", "'off'"])
def test_the_admin_port_can_be_switched_off(written: str, tmp_path: Path) -> None:
    file = tmp_path / "teeline.yaml"
    file.write_text(f"upstreams: [{{url: https://x}}]\nadmin: {{listen: {written}}}\n")
    assert load(str(file)).admin.listen is None


@pytest.mark.parametrize("listen", ["0.0.0.0:8788", "192.0.2.1:8788", "box.example:1", "'[::]:1'"])
def test_an_admin_port_that_others_reach_needs_a_token(listen: str, tmp_path: Path) -> None:
    file = tmp_path / "teeline.yaml"
    text = f"upstreams: [{{url: https://x}}]\nadmin:\n  listen: {listen}\n"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(str(file))
    assert "can be reached from other machines: set `admin.token_file`" in str(error.value)
    file.write_text(text + "  token_file: /run/token\n")
    assert load(str(file)).admin.token_file == Path("/run/token")


@pytest.mark.parametrize("host", ["https://box.example", "box.example:8788", "", "a b"])
def test_an_allowed_host_is_a_bare_name(host: str, tmp_path: Path) -> None:
    file = tmp_path / "teeline.yaml"
    file.write_text(f"upstreams: [{{url: https://x}}]\nadmin: {{allowed_hosts: ['{host}']}}\n")
    with pytest.raises(ConfigError, match="is no host name"):
        load(str(file))
