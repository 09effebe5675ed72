; Where the grammar could not follow: what it skipped, and what it had to imagine.
(ERROR) @error
(MISSING) @error
