"""Vector indexes, one file each."""
