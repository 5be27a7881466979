"""The asynchronous driver of the flow: single flight, deadlines, write-back, fail open."""
