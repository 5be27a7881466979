"""What questions and answers say, read by rules: evidence, and vetoes."""
