"""``python -m tests.validators.fuzz [COUNT] [SEED]``: variants by the hundred thousand, by hand.

What the test suite does with a few thousand variants, for as many as wanted: none raises, and none gives
other findings when it is cut at random.
"""

from __future__ import annotations

import json
import sys

from tests.validators.exchanges import cases, examples, findings, inspect, partition, whole
from tests.validators.mutations import Mutator
from tests.validators.streams import DISORDERED


def main(count: int, seed: int) -> int:
    exchanges = [*cases().values(), *(document for _, document in examples()), *DISORDERED]
    mutator = Mutator(seed)
    failed = 0
    for n in range(count):
        document = mutator.variant(exchanges[n % len(exchanges)])
        try:
            same = findings(inspect(document, whole)) == findings(inspect(document, partition(n)))
        except Exception as error:  # noqa: BLE001  whatever it is, it is what we look for
            same = False
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        if not same:
            failed += 1
            sys.stdout.write(json.dumps(document) + "\n")
    sys.stderr.write(f"{count} variants, seed {seed}: {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:3]]
    sys.exit(main(*(numbers + [200_000, 1][len(numbers) :])))
