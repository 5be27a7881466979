"""Engines and providers, one file each."""
