"""Attention sink as Ascend does it: hidden keys are zeroed after the exponential."""
