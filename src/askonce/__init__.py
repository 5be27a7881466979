"""AskOnce: an inference cache that asks the model once."""

__version__ = "0.1.0"
