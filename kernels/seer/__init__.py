"""SeerAttention: block-sparse attention with a table that a learned gate has chosen."""
