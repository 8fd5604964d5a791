"""Helpers for tests of Tiresias and of plug-ins.

    Harness("las", gpus=4).running("a", gpus=4, service_s=100).pending("b", gpus=4).plan().preempted == ["a"]

`Harness` runs scenarios; `contracts` and `executors` have test classes that every policy, placer and executor
must pass; `checkers` check the journal of any simulation; `reference` is a simple second simulator.
"""

from tiresias.testing.builders import a_job, a_trace, random_trace
from tiresias.testing.harness import Harness, Plan
from tiresias.testing.story import Story, story_of

__all__ = ["Harness", "Plan", "Story", "a_job", "a_trace", "random_trace", "story_of"]
