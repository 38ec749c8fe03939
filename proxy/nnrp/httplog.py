"""The log of an HTTP server that is not teeline's own, without what its clients sent.

What belongs here: that one logger. What doesn't: what is served.
"""

from __future__ import annotations

import logging


class _WithoutDetails(logging.Filter):
    """Takes the exception off: the library's own records quote request heads, keys among them."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.exc_info = record.exc_text = None
        record.msg, record.args = "a request could not be read or answered", ()
        return True


def quiet(name: str) -> logging.Logger:
    """A logger that says that something went wrong, and nothing of what."""
    logger = logging.getLogger(f"teeline.nnrp.{name}.http")
    if not logger.filters:
        logger.addFilter(_WithoutDetails())
    return logger
