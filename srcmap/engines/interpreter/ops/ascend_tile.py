"""Ascend (next slice)."""
