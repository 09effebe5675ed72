"""A kernel of upstream's and inputs -> outputs: the engines that run tile language.

`interpreter` reads the kernel's Python and computes with NumPy; `tilelang-cpu` is upstream's own
compiler with its CPU target; `cuda` is the real thing. Whatever runs, runs in a child process
(`child`), so that nothing here is imported when srcmap is, and nothing of upstream's either.
"""
