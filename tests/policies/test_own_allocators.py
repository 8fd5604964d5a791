"""The contract of allocators: one leaves slots to the placer, one names them, one lets jobs share them."""

from __future__ import annotations

from tiresias.testing import own_allocators  # noqa: F401  (for what it registers)
from tiresias.testing.contracts import AllocatorContract


class TestInTurn(AllocatorContract):
    policy = "in-turn"
    keeps_shares = False


class TestLeased(AllocatorContract):
    policy = "leased"
    keeps_shares = False


class TestSized(AllocatorContract):
    policy = "sized"
    keeps_shares = False


class TestStacked(AllocatorContract):
    policy = "stacked"
    keeps_shares = False
