"""Whether a semantic candidate may be served; pure."""
