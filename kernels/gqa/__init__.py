"""Grouped and multi-query attention: several query heads read one head of keys and values."""
