"""Public conformance suites, fakes and a fake clock."""

from askonce.testing.blocks import check_block_transport
from askonce.testing.clock import FakeClock
from askonce.testing.owners import check_store_owners
from askonce.testing.revocations import check_revocations
from askonce.testing.sink import RecordingSink
from askonce.testing.stores import (
    check_store,
    check_store_epoch,
    check_store_tags,
)

__all__ = [
    "FakeClock",
    "RecordingSink",
    "check_block_transport",
    "check_revocations",
    "check_store",
    "check_store_epoch",
    "check_store_owners",
    "check_store_tags",
]
