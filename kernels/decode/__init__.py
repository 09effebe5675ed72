"""Decoding with few queries: the keys are split over programs, and a second kernel combines."""
