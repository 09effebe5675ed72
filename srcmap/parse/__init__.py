"""Files to parsed files: `ast` to read Python, LibCST to rewrite it, tree-sitter for the rest."""
