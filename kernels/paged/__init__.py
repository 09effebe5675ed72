"""Attention over a KV cache in pages, found through a block table."""
