"""What attention costs, counted: traffic, intensity, on-chip memory, parallelism, cache, rounding.

Each module holds one model: functions that take sizes and give numbers, and a `table` of them.
`python -m kernels.models NAME` prints the table, or draws it with `--plot FILE`.
Sizes are checked by `errors.positive`; what cannot be is a `ModelError` with a sentence for people.
"""
