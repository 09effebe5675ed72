"""Multi-head attention, full and causal, in both layouts."""
