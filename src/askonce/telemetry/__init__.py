"""Subscribers of the core's events, one file each."""
