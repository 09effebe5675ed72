"""The operations of the tile language: one small function each, with what upstream says it does.

`operation("copy", defined_in="tilelang/language/copy_op.py")` puts a function into the language
under its names. An operation that no function here knows is an error naming it, file and line.
"""
