"""Measurements of AskOnce, each side by side with what it is compared to: `python -m bench`."""
