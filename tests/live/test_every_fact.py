"""Every kind of fact has its place wherever facts are handled by kind (ARCHITECTURE.md, "Add a fact")."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiresias.core import facts as f
from tiresias.core.state import EVOLVE
from tiresias.live.events import event_of
from tiresias.store import StoredFact

KINDS = list(get_args(f.Fact))


def test_every_kind_changes_the_state():
    assert set(EVOLVE) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_every_kind_is_an_event_with_a_text(kind: type, data: st.DataObject):
    fact = data.draw(st.from_type(kind))
    assert event_of(StoredFact(1, 1, False, fact)).text
