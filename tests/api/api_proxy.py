"""A network that breaks: a Unix socket before a manager's, whose connections are cut at random places."""

from __future__ import annotations

import random
import socket
import threading
from pathlib import Path


class CuttingProxy:
    """Every answer is cut after a random number of bytes; `calm` lets everything through."""

    def __init__(self, home: Path, target: Path, rng: random.Random, most_bytes: int):
        self.home = home
        self.cuts = 0
        self.is_calm = False
        self._target = target
        self._rng = rng
        self._most = most_bytes
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(home / "manager.sock"))
        self._listening.listen()
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for each in self._open:
            _shut(each)
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self._target))
            self._open += [near, far]
            allowed = None if self.is_calm else self._rng.randrange(1, self._most)
            for source, sink, limit in ((near, far, None), (far, near, allowed)):
                thread = threading.Thread(target=self._pass_on, args=(source, sink, limit))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        passed = 0
        try:
            while data := source.recv(4096):
                if limit is not None and passed + len(data) >= limit:
                    sink.sendall(data[: limit - passed])
                    self.cuts += 1
                    return
                sink.sendall(data)
                passed += len(data)
        except OSError:
            return
        finally:
            _shut(source)
            _shut(sink)


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
