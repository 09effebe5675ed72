"""Runs kernels written in the tile language with NumPy, unmodified, line by line.

`loader` serves `import tilelang` with stand-ins and loads an upstream file without its demos;
`rewriting` turns the body of a kernel into Python that means what the tile language means;
`kernels` binds arguments and launches the grid; `machine` holds what runs (roles, barriers, flags);
`memory` is buffers and what is stored in them; `ops` has one small function for each operation.
"""
