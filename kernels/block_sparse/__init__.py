"""Block-sparse attention: a 0/1 table says which blocks of keys a block of queries reads."""
