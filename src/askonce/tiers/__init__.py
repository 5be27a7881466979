"""The exact and the semantic tier, over ports."""
