"""The contract of allocators, for one that leaves slots to the placer and one that names them."""

from __future__ import annotations

from tiresias.testing import own_allocators  # noqa: F401  (for what it registers)
from tiresias.testing.contracts import AllocatorContract


class TestInTurn(AllocatorContract):
    policy = "in-turn"
    keeps_shares = False


class TestLeased(AllocatorContract):
    policy = "leased"
    keeps_shares = False
