"""Sink, sliding window, grouped heads and packed samples at once."""
