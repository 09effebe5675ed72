"""Write what the tool finds in the corpus today: `python tests/cite/refresh.py`. Read the diff.

Each line of `expected.tsv` is one citation: document, first and last byte, text, target, verdict.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

CORPUS = Path(__file__).parent / "corpus"


def main() -> None:
    from tests.cite.test_corpus import found
    from tests.cite.world import build

    with tempfile.TemporaryDirectory() as folder:
        rows = found(build(Path(folder)))
    (CORPUS / "expected.tsv").write_text("\n".join(map("\t".join, rows)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
