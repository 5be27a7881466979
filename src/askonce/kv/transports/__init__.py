"""Ways to reach a store of blocks: one file each, over one small machine for sockets."""
