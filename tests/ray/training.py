"""A training for tests: its workers meet, take steps together, stop after the same step, and resume.

python training.py STEPS SECONDS_PER_STEP USES

Worker 0 keeps the state: the number of steps and a digest over all of them, which is right only if each step
was taken exactly once, in order. Each worker writes into the directory USES which slots it has (uses.py).
"""

from __future__ import annotations

import hashlib
import os
import pickle
import socket
import sys
import time

from uses import Uses

from tiresias import job

STEPS, STEP_S, USES = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
WORKER, WORKERS = int(os.environ["TIRESIAS_WORKER"]), int(os.environ["TIRESIAS_WORKERS"])
WAIT_S = 60.0


class Peers:
    """All workers of the gang: worker 0 hears all others and answers all of them."""

    def __init__(self) -> None:
        address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
        if WORKER == 0:
            server = socket.create_server(address, backlog=WORKERS)
            server.settimeout(WAIT_S)
            self.links = [server.accept()[0] for _ in range(WORKERS - 1)]
        else:
            self.links = [self._connected(address)]
        for link in self.links:
            link.settimeout(WAIT_S)

    def _connected(self, address: tuple[str, int]) -> socket.socket:
        begun = time.monotonic()
        while True:
            try:
                return socket.create_connection(address, timeout=WAIT_S)
            except OSError:
                if time.monotonic() - begun > WAIT_S:
                    raise
                time.sleep(0.05)

    def any(self, flag: bool) -> bool:
        """Whether any worker says so; the same answer for all of them."""
        if WORKER == 0:
            for link in self.links:
                flag |= self._read(link) == b"1"
            for link in self.links:
                link.sendall(b"1" if flag else b"0")
            return flag
        self.links[0].sendall(b"1" if flag else b"0")
        return self._read(self.links[0]) == b"1"

    def _read(self, link: socket.socket) -> bytes:
        answer = link.recv(1)
        if not answer:
            raise ConnectionError("a peer has ended")
        return answer


def main() -> None:
    uses = Uses(USES, WORKER, WORKERS, os.environ["TIRESIAS_SLOTS"].split(","))
    path = job.checkpoint_dir / "state"
    steps, value = 0, ""
    if path.exists():
        steps, value = pickle.loads(path.read_bytes())
    first = steps
    peers = Peers() if WORKERS > 1 else None

    def save() -> None:
        if WORKER == 0:
            job.save(path, lambda file: file.write(pickle.dumps((steps, value))))

    while steps < STEPS:
        stop = job.should_stop()
        if peers is not None:
            stop = peers.any(stop)
        if stop:
            save()
            if peers is not None:
                peers.any(True)  # nobody leaves before the state is saved
            uses.ended()
            job.preempted()
        time.sleep(STEP_S)
        steps += 1
        value = hashlib.sha256(f"{value}{steps}".encode()).hexdigest()
        job.report(step=steps, total_steps=STEPS)
        if steps == first + 1:
            uses.stepped()
        if steps % 20 == 0:
            save()
    save()
    if peers is not None:
        peers.any(True)
    uses.ended()
    if WORKER == 0:
        job.finished(step=steps, total_steps=STEPS)


if __name__ == "__main__":
    main()
