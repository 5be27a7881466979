"""The shared KV tier, simulated: traces replayed over replicas, links, GPUs and tier policies."""
