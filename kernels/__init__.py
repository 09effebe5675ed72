"""Attention variants re-implemented to be read: a definition and a blocked form of each."""
