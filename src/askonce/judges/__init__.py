"""Whether two answers say the same: by rules, or by asking a model."""
