"""The audit log as a configuration asks for it: the sink, what is kept of bodies, fingerprints of keys.

What belongs here: from settings to objects, and the words for what can't be. What doesn't: settings
themselves (config), the other sinks (proxy/cli/serve.py).
"""

from __future__ import annotations

from typing import NamedTuple

from teeline.config.model import CaptureConfig, Config
from teeline.proxy.audit.anchor import Tell
from teeline.proxy.audit.bodies import Keep as KeepBodies
from teeline.proxy.audit.files import prepare
from teeline.proxy.audit.record import Origin, ruleset_id
from teeline.proxy.audit.sink import AuditSink, unwritable
from teeline.proxy.audit.writer import SHARE, OnWritten, Rotation
from teeline.proxy.capture import Capture
from teeline.proxy.fingerprint import Fingerprint, SecretError, load_or_make
from teeline.proxy.reports.model import tool_version
from teeline.validators.rules import register

_DAY = 86400.0
_HOUR = 3600.0


class AuditError(Exception):
    """The audit log can't be begun as it is configured; the text is one line that says why."""


class Auditing(NamedTuple):
    """The sink, and what it needs of each exchange beside its findings."""

    sink: AuditSink
    capture: Capture | None
    fingerprint: Fingerprint


def auditing(
    config: Config,
    tell: Tell | None = None,
    on_written: OnWritten | None = None,
    share: int = 1,
) -> Auditing | None:
    """None where no log is written. ``tell`` takes the heads of the chain, ``on_written`` its lines.

    ``share`` processes write to the same folder: what they are writing can't be deleted, so their
    files are the smaller, the more of them there are. Raises AuditError.
    """
    audit, bodies = config.audit, config.capture
    if not audit.enabled:
        return None
    try:
        prepare(audit.dir)
        fingerprint = load_or_make(audit.secret_file)
    except OSError as error:
        raise AuditError(unwritable(audit.dir, error)) from None
    except SecretError as error:
        raise AuditError(str(error)) from None
    capture = Capture(bodies) if bodies.enabled else None
    sink = AuditSink(
        audit.dir,
        origin=_origin(config),
        max_bytes=audit.keep_bytes,
        max_age_days=audit.keep_days,
        anchor=audit.anchor,
        tell=tell,
        rotation=Rotation(
            min(audit.file_bytes, max(1, audit.keep_bytes // (SHARE * share))),
            audit.file_hours * _HOUR,
        ),
        compress=audit.compress,
        capture=capture,
        keep_bodies=KeepBodies(bodies.keep_bytes, bodies.keep_days * _DAY) if capture else None,
        on_written=on_written,
    )
    return Auditing(sink, capture, fingerprint)


def _origin(config: Config) -> Origin:
    return Origin(
        tool_version(),
        ruleset_id(register()),
        tuple(f"{upstream.name}={upstream.profile}" for upstream in config.upstreams),
        tuple((upstream.name, str(upstream.url)) for upstream in config.upstreams),
    )


def kept_bodies(capture: CaptureConfig) -> str:
    """Of which exchanges bodies are kept, in words."""
    words = [] if capture.when == "never" else [f"when: {capture.when}"]
    words += [f"rules: {', '.join(capture.rules)}"] if capture.rules else []
    words += [f"upstreams: {', '.join(capture.upstreams)}"] if capture.upstreams else []
    return "; ".join(words)
