"""The memories of the policy and of the placer, as one text.

A placer that has learned nothing leaves no trace, so journals without one are as they always were.
"""

from __future__ import annotations

import json
from typing import Any

from tiresias.core.plugin_failures import PluginRaised, failure_of
from tiresias.core.plugins import Policy, compact_json
from tiresias.core.state import State

OF_POLICY, OF_PLACER = "of_policy", "of_placer"


def dump(policy: Policy, state: State) -> str:
    """Both memories as text.

    PluginRaised if the policy cannot save its memory, or if JSON cannot hold what it saved.
    """
    try:
        saved = policy.saved_text(state.memory)
        if state.placing is not None and state.placing.get("seen"):
            saved = f'{{"{OF_POLICY}":{saved},"{OF_PLACER}":{compact_json(state.placing)}}}'
        return saved
    except Exception as error:
        raise PluginRaised(failure_of(error, "policy", policy.name)) from error


def read(policy: Policy, text: str) -> tuple[Any, dict[str, Any] | None]:
    """The memory of the policy, and that of the placer if it has learned something."""
    saved = json.loads(text)
    placing = None
    if isinstance(saved, dict) and saved.keys() == {OF_POLICY, OF_PLACER}:
        saved, placing = saved[OF_POLICY], saved[OF_PLACER]
    return policy.restore(saved), placing
