"""Exact stores, one file each."""
