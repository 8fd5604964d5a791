"""What a live manager stores, in one SQLite file (docs/explanation/what-is-stored.md)."""

from tiresias.store.batch import Batch, Chosen, SubmissionKey
from tiresias.store.compaction import Compacted
from tiresias.store.errors import CodecError, InUse, StoreError
from tiresias.store.loading import Loaded
from tiresias.store.profiles import PROFILE
from tiresias.store.reader import Reader
from tiresias.store.replay import Difference, RecordedStep, Replay, redecide, replay
from tiresias.store.store import Store
from tiresias.store.stored import (
    RunSpan,
    StoredEnding,
    StoredExit,
    StoredFact,
    StoredJob,
    StoredRun,
    StoredToken,
)

__all__ = [
    "PROFILE",
    "Batch",
    "Chosen",
    "CodecError",
    "Compacted",
    "Difference",
    "InUse",
    "Loaded",
    "Reader",
    "RecordedStep",
    "Replay",
    "RunSpan",
    "Store",
    "StoreError",
    "StoredEnding",
    "StoredExit",
    "StoredFact",
    "StoredJob",
    "StoredRun",
    "StoredToken",
    "SubmissionKey",
    "redecide",
    "replay",
]
