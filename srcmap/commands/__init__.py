"""One module per command: `register(app)` for the command line, `run(...) -> int` for callers."""
