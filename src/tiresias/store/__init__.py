"""The journal and the tables of a live manager, on SQLite (docs/explanation/what-is-stored.md)."""

from tiresias.store.batch import Batch, Chosen, SubmissionKey
from tiresias.store.compaction import Compacted
from tiresias.store.errors import CodecError, InUse, StoreError
from tiresias.store.loading import Loaded
from tiresias.store.profiles import PROFILE
from tiresias.store.reader import Reader
from tiresias.store.records import JobRecord, RunRecord, RunSpan, StoredFact, TokenRecord
from tiresias.store.replay import Difference, RecordedStep, Replay, redecide, replay
from tiresias.store.store import Store

__all__ = [
    "PROFILE",
    "Batch",
    "Chosen",
    "CodecError",
    "Compacted",
    "Difference",
    "InUse",
    "JobRecord",
    "Loaded",
    "Reader",
    "RecordedStep",
    "Replay",
    "RunRecord",
    "RunSpan",
    "Store",
    "StoreError",
    "StoredFact",
    "SubmissionKey",
    "TokenRecord",
    "redecide",
    "replay",
]
