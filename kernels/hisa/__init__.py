"""HISA, the two-level indexer: the best blocks of pooled keys, then the best tokens in them."""
