"""`python -m srcmap` and the `srcmap` command."""

from __future__ import annotations

import gc
import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # A short command makes no garbage worth looking for: with the usual threshold, collections
    # during imports and at exit are a tenth of `srcmap variant`. Long commands still collect.
    gc.set_threshold(100_000, 20, 20)
    from srcmap.cli import run

    code = run(sys.argv[1:])
    gc.freeze()
    return code


if __name__ == "__main__":
    sys.exit(main())
