"""A request log, replayed: what each tier would have answered, and how to set them."""
