"""What can be set, as frozen values that are right once they exist.

What belongs here: the shape of a configuration, its defaults, and what makes a value wrong, said in
one line. What doesn't: where values come from (load.py) and what is done with them (proxy).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from teeline.validators.limits import DEFAULT_LIMITS, Limits
from teeline.validators.model import Severity
from teeline.validators.profiles import AUTO

_DEFAULT_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)+\Z")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}\Z")
_PATH = re.compile(r"[\x21-\x7e]*\Z")
_TRACE_URL = re.compile(r"https?://[\x21-\x7e]{1,1000}\Z")
_NO_PROXY = "a proxy is `env` or a URL like http://proxy.example:3128"


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where clients connect to. ``port`` 0 takes a free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress:
        """From ``HOST:PORT`` (``[::1]:8787`` for IPv6); ValueError with one line otherwise."""
        host, colon, port = text.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise ValueError("an IPv6 address is written in brackets, [::1]:8787")
        if not colon or not host or not _is_port(port):
            raise ValueError("a listen address is HOST:PORT, for example 127.0.0.1:8787")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether nobody but this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UpstreamURL:
    """The base URL of an upstream. ``path`` has no slash at its end and may be empty."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, text: str) -> UpstreamURL:
        """From a URL; ValueError with one line otherwise, which never quotes a key in the URL."""
        parts = _split(text)
        path = parts.path.rstrip("/")
        if "/v1/v1/" in path + "/":
            raise ValueError("the URL holds /v1/v1; write /v1 once")
        if not _PATH.match(path) or ".." in path.split("/"):
            raise ValueError("the path of the URL holds blanks, non-ASCII characters or '..'")
        host = parts.hostname or ""
        port = parts.port if parts.port is not None else _DEFAULT_PORTS[parts.scheme]
        return cls(parts.scheme, host, port, path)

    @property
    def authority(self) -> str:
        """What the Host field says: the port only where it isn't the scheme's own (RFC 9110
        7.2).
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds; None is no limit, since a reasoning model may be silent for minutes.

    ``connect``: until a connection stands, names resolved and TLS set up. ``first_byte``: from the
    end of the request to the head of the answer. ``idle``: between two pieces of the answer.
    ``total``: the whole exchange.
    """

    connect: float | None = 10.0
    first_byte: float | None = None
    idle: float | None = None
    total: float | None = None

    @property
    def armed(self) -> bool:
        """Whether any limit but that of connecting is set."""
        return self.first_byte is not None or self.idle is not None or self.total is not None


@dataclass(frozen=True, slots=True)
class UpstreamTLS:
    """How an ``https`` upstream is known, and what it knows us by.

    ``ca``: a file of the authorities that are trusted instead of the system's. ``cert`` and
    ``key``: a client certificate; the key may stand in the same file. ``server_name``: the name
    that is asked for and verified, where it isn't the URL's host. ``verify`` false trusts anyone.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    server_name: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        if self.key is not None and self.cert is None:
            raise ValueError("`tls` has a key without a cert")
        if not self.verify and self.ca is not None:
            raise ValueError("`tls` names a ca, and verifies nothing")
        if self.server_name is not None and not _HOST.match(self.server_name):
            raise ValueError("`server_name` is no host name")


@dataclass(frozen=True, slots=True)
class ListenTLS:
    """The certificate that clients see; the key may stand in the same file."""

    cert: Path
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class ProxyURL:
    """An HTTP proxy on the way to an upstream. ``login`` is ``user:password``, decoded, or empty."""

    scheme: str
    host: str
    port: int
    login: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> ProxyURL:
        """From a URL; ValueError with one line otherwise, which never quotes it."""
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            usual = _DEFAULT_PORTS[parts.scheme]
            port = parts.port if parts.port is not None else usual
        except (ValueError, KeyError):
            raise ValueError(_NO_PROXY) from None
        host = parts.hostname or ""
        if not _HOST.match(host) or port == 0 or parts.path not in ("", "/") or parts.query:
            raise ValueError(_NO_PROXY)
        login = ""
        if parts.username is not None:
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        return cls(parts.scheme, host, port, login)

    def __str__(self) -> str:
        """The proxy without its login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


FROM_ENVIRONMENT = "env"
"""In place of a proxy's URL: what HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say."""


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One relay.

    At most one of ``listen`` (an address of its own) and ``prefix`` (a path) is set. ``profile`` is a
    vendor profile's name, ``auto`` (by the marks of its answers) or ``none``. ``proxy`` is a URL, or
    FROM_ENVIRONMENT; without it the environment is not looked at.
    """

    url: UpstreamURL
    name: str = ""
    listen: ListenAddress | None = None
    prefix: str = ""
    profile: str = AUTO
    timeouts: Timeouts = Timeouts()
    tls: UpstreamTLS | None = None
    proxy: ProxyURL | str | None = None

    def __post_init__(self) -> None:
        if self.tls is not None and self.url.scheme != "https":
            raise ValueError("`tls` is for upstreams with an https:// URL")
        if not self.name:
            derived = re.sub(r"[^A-Za-z0-9._-]+", "-", self.url.host).strip("-")[:64]
            object.__setattr__(self, "name", derived or "upstream")
        if not _NAME.match(self.name):
            raise ValueError("a name is 1 to 64 letters, digits, dots, dashes and underscores")
        if self.prefix and (not _PREFIX.match(self.prefix) or ".." in self.prefix.split("/")):
            raise ValueError("a prefix is a path like /openai, with no slash at its end")
        if self.prefix and self.listen:
            raise ValueError("an upstream has a prefix or a listen address of its own, not both")


@dataclass(frozen=True, slots=True)
class RulesConfig:
    """Which rules are reported, by id or family; ``select`` empty is all, ``ignore`` wins."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    severity: Mapping[str, Severity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """The audit log: whether it is written, to which folder, and how much of it is kept.

    ``keep_bytes`` (all files together) and ``keep_days`` bound what is kept. A file is closed at
    ``file_bytes`` or after ``file_hours`` and, with ``compress``, packed. ``anchor`` is a file that
    gets the heads of the chains. ``fingerprint_secret_file``: None is a file in ``dir``.
    ``index``: the server keeps the index of the records fresh. ``otlp``: records go out as log
    records, too.
    """

    enabled: bool = True
    dir: Path = Path("teeline-data")
    keep_days: float = 7.0
    keep_bytes: int = 1024**3
    file_bytes: int = 64 * 1024 * 1024
    file_hours: float = 24.0
    compress: bool = True
    anchor: Path | None = None
    fingerprint_secret_file: Path | None = None
    index: bool = True
    otlp: bool = False

    @property
    def secret_file(self) -> Path:
        """Where the secret of key fingerprints is."""
        return self.fingerprint_secret_file or self.dir / "fingerprint-secret"


CAPTURE_WHEN = ("never", "fail", "warn", "always")


@dataclass(frozen=True, slots=True)
class CaptureConfig:
    """Bodies beside the audit log. Off unless ``when`` or ``rules`` say otherwise.

    ``when`` an exchange has this verdict (``warn``: or a worse one), or ``always``; beside that
    whenever it breaks one of ``rules`` (ids or families). ``upstreams`` alone; empty: all.
    ``max_bytes`` of each body are kept, ``memory`` bytes held for exchanges that aren't over.
    ``keep_bytes`` and ``keep_days`` bound the bodies on the disk.
    """

    when: str = "never"
    rules: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    max_bytes: int = 1024 * 1024
    memory: int = 64 * 1024 * 1024
    keep_days: float = 7.0
    keep_bytes: int = 1024**3

    def __post_init__(self) -> None:
        if self.when not in CAPTURE_WHEN:
            raise ValueError(f"`when` is one of {', '.join(CAPTURE_WHEN)}")

    @property
    def enabled(self) -> bool:
        """Whether any exchange may be kept."""
        return self.when != "never" or bool(self.rules)


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """What is told beside warnings and failures; where to is the OTEL_* variables' matter.

    ``span_events``: violations stand on their exchange's span, too, for those who see no log
    records. ``info_records``: observations are log records, too.
    """

    span_events: bool = True
    info_records: bool = False


@dataclass(frozen=True, slots=True)
class AdminConfig:
    """The admin port; ``listen`` None is none. ValueError where it would be open to others.

    ``token_file`` holds the token that requests must carry; ``allowed_hosts`` are names beside the
    machine's own by which it may be addressed. ``trace_url`` is the address of a trace in a tracing
    UI, with ``{trace_id}`` in it, or empty.
    """

    listen: ListenAddress | None = ListenAddress("127.0.0.1", 8788)
    token_file: Path | None = None
    allowed_hosts: tuple[str, ...] = ()
    trace_url: str = ""

    def __post_init__(self) -> None:
        template = self.trace_url
        if template and not (_TRACE_URL.match(template) and "{trace_id}" in template):
            raise ValueError("`trace_url` is like https://traces.example/trace/{trace_id}")
        if self.listen is not None and not self.listen.is_loopback and self.token_file is None:
            raise ValueError(
                f"the admin address {self.listen} can be reached from other machines: "
                "set `admin.token_file`, or listen on 127.0.0.1"
            )


@dataclass(frozen=True, slots=True)
class ClientsConfig:
    """What clients may take of each process that serves.

    ``connections`` open at once, None for as many as there are descriptors; more wait to be
    accepted. ``exchanges`` open at once, None for no limit; more get a 503. ``head``: bytes of a
    head, of requests (431) and of answers (502). ``head_timeout``: seconds in which a head that
    has begun must be whole; None is no limit.
    """

    connections: int | None = None
    exchanges: int | None = None
    head: int = 64 * 1024
    head_timeout: float | None = 30.0


@dataclass(frozen=True, slots=True)
class ShutdownConfig:
    """``deadline``: seconds that open streams get to end by themselves."""

    deadline: float = 30.0


@dataclass(frozen=True, slots=True)
class SchemaConfig:
    """Checks against schemas from requests, in processes that can be killed.

    ``timeout``: seconds that the end of an exchange waits for schema checks at most. ``processes``
    of each worker do them, beside one for those that are slow; ``queue`` checks wait at most, and
    ``memory`` bytes bound the address space of a process.
    """

    timeout: float = 1.0
    processes: int = 1
    queue: int = 64
    memory: int = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class InspectPoolConfig:
    """Documents beyond ``limits.in_place``, in processes that can be killed.

    ``processes`` of each worker inspect them. ``queue`` bytes of documents are held at most for those
    that wait or are inspected, ``memory`` bytes bound the address space of a process; one document
    takes ``timeout`` seconds at most, and waits ``patience`` seconds at most before.
    """

    processes: int = 1
    queue: int = 128 * 1024 * 1024
    memory: int = 2 * 1024 * 1024 * 1024
    timeout: float = 15.0
    patience: float = 15.0


@dataclass(frozen=True, slots=True)
class NnrpConfig:
    """NNRP on WebSockets that pass the data port.

    ``capabilities``: a file with the document that the servers declare themselves with; operations are then
    held against it. None: against nothing.
    """

    capabilities: Path | None = None


AUTO_WORKERS = "auto"
"""In place of a number of workers: as many as there are processors for this process."""
MAX_WORKERS = 256


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that is set. ValueError where the upstreams can't be told apart.

    ``workers``: processes that serve, 1 to MAX_WORKERS, or AUTO_WORKERS.
    """

    upstreams: tuple[UpstreamConfig, ...]
    listen: ListenAddress = ListenAddress("127.0.0.1", 8787)
    listen_tls: ListenTLS | None = None
    rules: RulesConfig = RulesConfig()
    limits: Limits = DEFAULT_LIMITS
    audit: AuditConfig = AuditConfig()
    capture: CaptureConfig = CaptureConfig()
    telemetry: TelemetryConfig = TelemetryConfig()
    admin: AdminConfig = AdminConfig()
    clients: ClientsConfig = ClientsConfig()
    shutdown: ShutdownConfig = ShutdownConfig()
    schema: SchemaConfig = SchemaConfig()
    inspect_pool: InspectPoolConfig = InspectPoolConfig()
    nnrp: NnrpConfig = NnrpConfig()
    workers: int | str = 1

    def __post_init__(self) -> None:
        if not self.upstreams:
            raise ValueError("no upstream: give --upstream URL, or `upstreams` in a config file")
        names = [upstream.name for upstream in self.upstreams]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"two upstreams are named {twice}")
        if strange := next((n for n in self.capture.upstreams if n not in names), None):
            raise ValueError(f"`capture.upstreams` names {strange}, which is no upstream")
        for address, upstreams in self.by_address():
            _check_prefixes(address, upstreams)

    def by_address(self) -> Iterator[tuple[ListenAddress, tuple[UpstreamConfig, ...]]]:
        """The addresses to listen on with the upstreams behind each, in the order of the file."""
        addresses: dict[ListenAddress, list[UpstreamConfig]] = {}
        for upstream in self.upstreams:
            addresses.setdefault(upstream.listen or self.listen, []).append(upstream)
        for address, upstreams in addresses.items():
            yield address, tuple(upstreams)


def _check_prefixes(address: ListenAddress, upstreams: tuple[UpstreamConfig, ...]) -> None:
    seen: dict[str, str] = {}
    for upstream in upstreams:
        other = seen.setdefault(upstream.prefix, upstream.name)
        if other != upstream.name:
            where = f"{address}{upstream.prefix}"
            raise ValueError(
                f"upstreams {other} and {upstream.name} both answer at {where}; "
                "give each a prefix or a listen address of its own"
            )


def _split(text: str) -> SplitResult:
    """The parts of an upstream URL. No message repeats the text: it may hold a key."""
    try:
        parts = urlsplit(text)
        if parts.port == 0:
            raise ValueError
    except ValueError:
        raise ValueError("this is not a URL; write https://relay.example/v1") from None
    if parts.scheme not in _DEFAULT_PORTS or "://" not in text:
        raise ValueError("the URL begins with http:// or https://, like https://relay.example/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("the URL holds a user name or password; clients send keys of their own")
    if "?" in text or "#" in text:
        raise ValueError("the URL holds a query or a fragment; a base URL ends with its path")
    if not parts.hostname or not parts.hostname.isascii() or not _PATH.match(text):
        raise ValueError("the host of the URL is missing, or holds characters that a URL can't")
    return parts


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535
