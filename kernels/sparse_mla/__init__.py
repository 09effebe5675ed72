"""Sparse multi-head latent attention: each query reads the tokens that an indexer chose."""
