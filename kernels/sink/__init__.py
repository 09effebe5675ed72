"""Attention sink: a learned logit in the denominator; with a window, with grouped heads."""
