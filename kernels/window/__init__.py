"""Sliding-window attention: a query sees only the last keys before it."""
