"""Block-causal attention of diffusion language models: a noisy half before a clean half."""
