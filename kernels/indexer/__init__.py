"""The lightning indexer: cheap scores of all keys, of which the best few are chosen."""
