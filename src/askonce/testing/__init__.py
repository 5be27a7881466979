"""Public conformance suites, fakes and a fake clock."""
