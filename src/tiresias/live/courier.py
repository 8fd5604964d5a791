"""Delivers notices in threads of its own: a target that hangs delays nothing but its own notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

from tiresias.live.notice_target import Network, Target

IDLE_S = 5.0  # a thread without work ends after this time
MOST_THREADS = 16


@dataclass(slots=True, frozen=True)
class Parcel:
    """A notice as it is sent. `key` identifies it, to the receiver as well."""

    key: str
    target: Target
    body: bytes
    secret: str


@dataclass(slots=True, frozen=True)
class Delivery:
    """What became of a parcel; `error` is empty if it was delivered."""

    key: str
    error: str
    is_gone: bool = False  # the target says that it does not exist any more


class Courier:
    """`send` and `collect` never wait."""

    def __init__(self, allowed: Sequence[Network] = ()):
        self._allowed = allowed
        self._parcels: SimpleQueue[Parcel] = SimpleQueue()
        self._done: SimpleQueue[Delivery] = SimpleQueue()
        self._threads: list[Thread] = []
        self._under_way = 0

    @property
    def has_room(self) -> bool:
        return self._under_way < MOST_THREADS

    def send(self, parcel: Parcel) -> None:
        self._under_way += 1
        self._parcels.put(parcel)
        self._threads = [each for each in self._threads if each.is_alive()]
        if len(self._threads) < min(self._under_way, MOST_THREADS):
            thread = Thread(target=self._work, name="notices", daemon=True)
            self._threads.append(thread)
            thread.start()

    def collect(self) -> list[Delivery]:
        """What became of parcels since the last call."""
        found = []
        while True:
            try:
                found.append(self._done.get_nowait())
            except Empty:
                self._under_way -= len(found)
                return found

    def _work(self) -> None:
        from tiresias.live.delivery import deliver

        while True:
            try:
                parcel = self._parcels.get(timeout=IDLE_S)
            except Empty:
                return
            try:
                delivery = deliver(parcel, self._allowed)
            except Exception as error:  # noqa: BLE001  (the thread must go on, whatever a target sends)
                delivery = Delivery(parcel.key, f"{type(error).__name__}: {error}")
            self._done.put(delivery)
