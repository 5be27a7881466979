"""Embedders, one file each."""
