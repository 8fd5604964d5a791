"""The policies, which rank jobs, and the allocators. Importing this package registers every one."""

from tiresias.policies import fifo, gandiva, las, optimus, oracle, paper, philly, themis, tiresias, two_level

__all__ = [
    "fifo",
    "gandiva",
    "las",
    "optimus",
    "oracle",
    "paper",
    "philly",
    "themis",
    "tiresias",
    "two_level",
]
