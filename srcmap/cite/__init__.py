"""Citations: a document in, every reference to a pinned file out, each with a verdict.

The way of a citation: `source` (bytes to text that knows its bytes), `readers` (what is prose, what
is code), `forms` (how references are written), `find` (which file is meant), `evidence` (what the
document says about the place), `judge` (whether it is there). Nothing here prints.
"""
