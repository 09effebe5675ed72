"""`python -m srcmap` and the `srcmap` command."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    from srcmap.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
