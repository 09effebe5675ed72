"""Four steps from the formula to upstream's kernel; each changes one idea of the one before."""
