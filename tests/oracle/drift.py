"""``python -m tests.oracle.drift``: what the installed ``openai`` package has that teeline does not know.

Run it after ``pip install -U openai``. A line with ``+`` is a difference that nobody has judged: it becomes a
row of a field table, a rule, or a line of deliberate.py. One with ``-`` stands there and is no longer true.
"""

from __future__ import annotations

import sys

import openai

from tests.oracle.deliberate import deliberate
from tests.oracle.described import ROOTS, pairs
from tests.oracle.differences import differences, of_unions


def drift() -> list[str]:
    found = differences(pairs(), ROOTS) | set(of_unions())
    meant = set(deliberate())
    new = [f"+ {line}" for line in sorted(found - meant)]
    return new + [f"- {line}" for line in sorted(meant - found)]


def main() -> int:
    lines = drift()
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stderr.write(f"openai {openai.__version__}: {len(lines)} differences that nobody judged\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
