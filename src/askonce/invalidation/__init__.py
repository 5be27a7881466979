"""Taking answers back, everywhere at once."""
