"""The live page as a configuration asks for it.

What belongs here: from settings to the page, its hub and its feed, and the address that is said at the
start. What doesn't: settings themselves (config), the port (proxy/admin.py).

The process that has the admin port has the hub; each process that serves has a feed. ``publish`` takes
what the feed tells to the hub: straight, or through whatever lies between two processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from teeline.config.model import Config, ListenAddress
from teeline.proxy.admin import read_or_make_token
from teeline.proxy.monitor.access import Sessions
from teeline.proxy.monitor.feed import FeedSink, Publish
from teeline.proxy.monitor.history import History
from teeline.proxy.monitor.hub import Hub
from teeline.proxy.monitor.pages import ROOT, Facts, Monitor
from teeline.proxy.reports.model import tool_version

_REACHABLE: Mapping[str, str] = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def monitor_of(
    config: Config, note: str = "", *, clock: Callable[[], float] = time.time
) -> Monitor | None:
    """The page; None where there is no admin port. AdminError where its token can't be read.

    ``note`` is a line for whoever opens it; ``clock`` gives Unix seconds.
    """
    admin = config.admin
    if admin.listen is None:
        return None
    token = None if admin.token_file is None else read_or_make_token(admin.token_file)
    upstreams = {upstream.name: str(upstream.url) for upstream in config.upstreams}
    return Monitor(
        Hub(upstreams, clock=clock),
        Facts(tool_version(), upstreams, admin.trace_url, note),
        History(config.audit.dir, clock=clock) if keeps_history(config) else None,
        None if token is None else Sessions(token),
    )


def feed_of(
    config: Config,
    publish: Publish,
    worker: str = "0",
    *,
    clock: Callable[[], float] = time.time,
) -> FeedSink | None:
    """The sink of a process that serves; None where there is no page. ``worker`` is its name."""
    if config.admin.listen is None:
        return None
    return FeedSink(publish, worker, details=not keeps_history(config), clock=clock)


def keeps_history(config: Config) -> bool:
    """Whether there is an index to ask."""
    return config.audit.enabled and config.audit.index


def page_url(address: ListenAddress, sessions: Sessions | None) -> str:
    """Where the page is; with a code that signs in once where a token is demanded."""
    # A browser can't go to "all addresses"; on this machine it goes to loopback.
    host = _REACHABLE.get(address.host, address.host)
    url = f"http://{ListenAddress(host, address.port)}{ROOT}"
    return f"{url}/" if sessions is None else f"{url}/login?code={sessions.code()}"
