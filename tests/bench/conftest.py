"""The benchmark is a program beside the package, run from a checkout: it is importable there alone."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
