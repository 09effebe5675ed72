"""Decoding with multi-head latent attention: one cached latent is key and value of all heads."""
