"""The store over Memcached servers."""
