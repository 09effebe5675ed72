"""Upstream's own compiler with its C target: an independent, slower check of the interpreter.

It exercises upstream's front end and CPU lowering, not its CUDA layouts, pipelining or TMA.
"""
