"""What is pinned: `vendor_locks/*.toml` in, `Lock` values out. `lock.write` goes the other way.

Reading is strict and fast; whatever a lock file does not say plainly is an error that names the
file and the key. Writing keeps a person's comments, and is a module of its own because tomlkit
takes longer to import than all the locks take to read.
"""

from srcmap.lock.find import find_project, known_locks, pick, read_locks, shipped_locks
from srcmap.lock.nouns import Archive, Lock, Pin
from srcmap.lock.read import read_lock

__all__ = [
    "Archive",
    "Lock",
    "Pin",
    "find_project",
    "known_locks",
    "pick",
    "read_lock",
    "read_locks",
    "shipped_locks",
]
