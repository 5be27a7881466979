"""How far hits may go: the account of evidence that keeps the error budget."""
