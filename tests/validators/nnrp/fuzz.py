"""``python -m tests.validators.nnrp.fuzz [COUNT] [SEED]``: broken NNRP connections by the hundred thousand.

None raises, none gives other findings when it is cut at random, and none has the fast path say anything else
than the full check. Variants are made of the rules' examples, on both carriers, and of connections in
disorder. What the tap makes of them: ``python -m tests.proxy.nnrp.fuzz``.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from teeline.validators.limits import Limits
from teeline.validators.nnrp.examples import Conversation, Sent, conversation, is_document
from teeline.validators.rules import register
from tests.validators.exchanges import partition
from tests.validators.nnrp.packets import Disordered
from tests.validators.nnrp.test_fast import Full, seen, talk

SMALL = Limits(operations=4, sessions=2, body=2_000, choices=2, tool_calls=2)
_VALUES = (0, 1, 2, 16, 40, 127, 128, 255, *b'"{}[]\\:,N')


def conversations() -> list[Conversation]:
    """What variants are made of: the examples of all rules, each on a plain stream and on a WebSocket."""
    found: list[Conversation] = []
    for rule in register().values():
        if rule.family != "nnrp" or is_document(rule.bad):
            continue
        for example in (rule.bad, rule.good):
            found += (conversation({**example, "carrier": c}) for c in ("plain", "websocket"))
    return found


class Mutator:
    """Breaks connections, the same way for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._known = conversations()

    def variants(self, count: int) -> Iterator[Conversation]:
        for n in range(count):
            chance = self._chance
            if n % 3 == 0:
                wanted = talk(Disordered(chance.randrange(10**9)).sent())
            else:
                wanted = chance.choice(self._known)
            sent = list(wanted.sent)
            for _ in range(chance.choice([0, 1, 1, 2, 4])):
                self._break(sent)
            limits = chance.choice([wanted.limits, SMALL])
            close = chance.choice(["client", "lost"])
            yield Conversation(tuple(sent), close, wanted.capabilities, limits)

    def _break(self, sent: list[Sent]) -> None:
        """One fault: in the bytes of a send, or in the order of sends of one time."""
        chance = self._chance
        at = chance.randrange(len(sent))
        kind = chance.randrange(6)
        if kind == 0:
            sent.insert(at, sent[at])
        elif kind == 1 and len(sent) > 1:
            del sent[at]
        else:
            sent[at] = sent[at]._replace(data=self._broken(sent[at].data, kind))

    def _broken(self, data: bytes, kind: int) -> bytes:
        chance = self._chance
        a, b = sorted((chance.randrange(len(data) + 1), chance.randrange(len(data) + 1)))
        if kind == 2:
            return data[:a] + data[b:]
        if kind == 3:
            return data[:b] + data[a:b] + data[b:]
        changed = bytearray(data)
        for _ in range(chance.choice([1, 1, 3, 8])):
            if changed:
                # Headers and metadata lie in front: most faults go there.
                reach = len(changed) if kind == 4 else min(len(changed), 120)
                changed[chance.randrange(reach)] = chance.choice(_VALUES)
        return bytes(changed)


def same(wanted: Conversation, seed: int) -> bool:
    """Whether all ways to read a connection say the same of it."""
    expected = seen(wanted, None)[1:]
    cut = seen(wanted, partition(seed))[1:]
    with Full():
        full = seen(wanted, None)[1:]
    return expected == full and timeless(expected) == timeless(cut)


def timeless(exchanges: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Exchanges without their timelines, which tell of reads."""
    return [{k: v for k, v in exchange.items() if k != "timeline"} for exchange in exchanges]


def main(count: int, seed: int) -> int:
    begun, failed, packets = time.process_time(), 0, 0
    for n, wanted in enumerate(Mutator(seed).variants(count)):
        packets += len(wanted.sent)
        try:
            right = same(wanted, n)
        except Exception as error:  # noqa: BLE001  whatever it is, it is what we look for
            right = False
            sys.stderr.write(f"variant {n}: {type(error).__name__}: {error}\n")
        if not right:
            failed += 1
            sys.stdout.write(f"variant {n} of seed {seed}\n")
    seconds = time.process_time() - begun
    sys.stderr.write(
        f"{count} connections, {packets} sends, seed {seed}: {failed} failed, {seconds:.0f} s CPU\n"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*(numbers + [20_000, 1][len(numbers) :])))
