"""The operators' API under `/askonce/v1`, at an address and with tokens of its own."""
