"""Native sparse attention, the selected branch: each query brings its own list of key blocks."""
