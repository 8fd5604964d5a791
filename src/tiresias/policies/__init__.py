"""The policies, which rank jobs, and the allocators. Importing this package registers every one."""

from tiresias.policies import fifo, las, oracle, paper, philly, themis, tiresias, two_level

__all__ = ["fifo", "las", "oracle", "paper", "philly", "themis", "tiresias", "two_level"]
