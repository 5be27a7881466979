"""Redis and Valkey: one server, Sentinel, or Cluster, over one multiplexed connection a node."""
