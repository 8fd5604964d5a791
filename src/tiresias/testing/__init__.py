"""For tests, ours and yours: scenarios (Harness), a naive reference, checkers of journals, contracts.

Harness("las", gpus=4).running("a", gpus=4, service_s=100).pending("b", gpus=4).plan().preempted == ["a"]
"""

from tiresias.testing.builders import a_job, a_trace, random_trace
from tiresias.testing.harness import Harness, Plan
from tiresias.testing.story import Story, story_of

__all__ = ["Harness", "Plan", "Story", "a_job", "a_trace", "random_trace", "story_of"]
