"""Tier 1 beyond one engine: KV blocks that another replica has computed."""
