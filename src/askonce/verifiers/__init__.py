"""Second opinions on pairs of questions."""
