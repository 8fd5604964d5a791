"""The contracts of policies and allocators, for every one in the registry and the variants that matter."""

from __future__ import annotations

import pytest

import tiresias.policies  # noqa: F401  (for what it registers)
from tiresias.core.plugins import policies
from tiresias.testing.contracts import AllocatorContract, PolicyContract

HERE = "tiresias.policies."
BUILTIN = [name for name in policies.names() if policies.get(name).__module__.startswith(HERE)]
OURS = [name for name in BUILTIN if not policies.get(name).allots]
ALLOCATORS = [name for name in BUILTIN if policies.get(name).allots]
BY_RHO = ("themis", "ftf")  # they know no shares; test_themis.py has their promise
ALLOCATOR_VARIANTS = [
    ("themis", {"lease_s": "100", "f": "0.2"}),
    ("two-level", {"fairness": "0.5", "within": "las", "within_set": "quantum_s=10"}),
    ("two-level", {"fairness": "0", "within": "srsf", "min_run_s": "30"}),
]
VARIANTS = [
    ("las", {"quantum_s": "10"}),
    ("tiresias-l", {"queues": "100,1000", "order": "first-start"}),
    ("tiresias-l", {"queues": "100,1000", "order": "running-first"}),
    ("tiresias-g", {"queues": "500,5000", "distribution": "50,400,3000", "index": "queue"}),
    ("tiresias-g", {"queues": "500,5000", "distribution": "50,400,3000", "index": "sup", "same_within": "1"}),
    ("tiresias-g", {"queues": "500,5000", "learn_after": "3"}),
    ("tiresias-g", {"queues": "500,5000", "index": "table", "table": "0:3,200:1,300:2"}),
]


class TestEveryPolicy(PolicyContract):
    @pytest.fixture(
        autouse=True,
        params=[*((name, {}) for name in OURS), *VARIANTS],
        ids=lambda case: " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items())]),
    )
    def which(self, request: pytest.FixtureRequest) -> None:
        self.policy, self.options = request.param


class TestEveryAllocator(AllocatorContract):
    @pytest.fixture(
        autouse=True,
        params=[*((name, {}) for name in ALLOCATORS), *ALLOCATOR_VARIANTS],
        ids=lambda case: " ".join([case[0], *(f"{key}={value}" for key, value in case[1].items())]),
    )
    def which(self, request: pytest.FixtureRequest) -> None:
        self.policy, self.options = request.param
        self.keeps_shares = self.policy not in BY_RHO and self.options.get("fairness") != "0"


def test_the_baselines_and_tiresias_are_there() -> None:
    assert {"fifo", "fifo-skip", "sjf", "srtf", "srsf", "las", "tiresias-l", "tiresias-g"} <= set(OURS)


def test_every_rival_is_held_to_the_contract_of_allocators() -> None:
    assert {"two-level", "philly", "gandiva", "themis", "ftf"} <= set(ALLOCATORS)
