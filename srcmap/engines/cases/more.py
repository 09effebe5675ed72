"""Further files of the catalogue's variants."""
