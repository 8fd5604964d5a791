"""The policies, which rank jobs. Importing this package registers every policy."""

from tiresias.policies import fifo, las, oracle, paper, tiresias

__all__ = ["fifo", "las", "oracle", "paper", "tiresias"]
