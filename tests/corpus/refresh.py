"""Write `kernels.json` anew: `python -m tests.corpus.refresh`. Read the diff entry by entry."""

from __future__ import annotations

import json
from pathlib import Path

from tests.corpus.pins import PINS, kinds_of, sweep


def main() -> None:
    found = {
        pin: {path: kinds for path, r in sweep(pin).readings.items() if (kinds := kinds_of(r))}
        for pin in PINS
    }
    text = json.dumps(found, indent=1, sort_keys=True)
    (Path(__file__).parent / "kernels.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
