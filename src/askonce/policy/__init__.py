"""What may be stored and what a caller may ask of the cache; pure."""
