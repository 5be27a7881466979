"""Offline tools: evaluate the semantic tier on labelled sets."""
