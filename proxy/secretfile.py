"""A file that holds a secret, made where there is none.

What belongs here: that a file comes to be whole, for its owner's eyes, once. What doesn't: what
secrets are for and what they must be like (fingerprint.py, admin.py).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

_MODE: Final = 0o600
_BYTES: Final = 32


def make(path: Path) -> None:
    """Puts 64 random hexadecimal digits into a new file; one that is there stays as it is.

    Of several processes that make the same file one wins, and none sees half of it. The folder is made, too.
    Raises OSError, also where the file is there already but the folder can't be written to.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Under another name first: a process that starts beside this one must see all or nothing.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        os.write(fd, secrets.token_hex(_BYTES).encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
