"""Attention over samples of different lengths, packed one after another."""
