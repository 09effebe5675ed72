"""MInference's vertical-slash attention: blocks along diagonals, then single columns."""
