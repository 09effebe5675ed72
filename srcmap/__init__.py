"""srcmap: where TileLang attention kernels do what, in pinned upstreams."""

__version__ = "0.1.0"
