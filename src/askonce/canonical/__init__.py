"""One model of requests, keys and answers for all dialects; pure."""
