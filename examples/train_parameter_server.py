"""A training with parameter servers over plain sockets, in NumPy: each tensor is one message.

    tiresias profile -- python examples/train_parameter_server.py --workers 2 --servers 3

Each worker computes gradients on a batch of its own and sends the gradient of every tensor to the server that
has the tensor; the tensors are distributed over the servers in turn. A server waits for all workers, updates
its weights by the mean of their gradients, and sends them back. As in VGG one layer has most of the weights,
so the server of that layer has most of the load, and the gang is slow when it is spread over the network.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import struct
import subprocess
import sys
import time
from typing import Any

import numpy as np

WIDTHS = (1568, 512, 512, 128, 10)
SAMPLES, BATCH, RATE = 2048, 32, 0.02
HEADER = struct.Struct("!IQ")  # the index of the tensor and its size in bytes

Tensors = list[np.ndarray]


def initial() -> Tensors:
    """The initial weights and biases of each layer, the same in every process."""
    rng = np.random.default_rng(0)
    tensors = []
    for inputs, outputs in itertools.pairwise(WIDTHS):
        tensors.append(rng.normal(0, (2 / inputs) ** 0.5, (inputs, outputs)).astype(np.float32))
        tensors.append(np.zeros(outputs, dtype=np.float32))
    return tensors


def dataset() -> tuple[np.ndarray, np.ndarray]:
    """Noisy samples of ten classes."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, WIDTHS[-1], SAMPLES)
    centres = rng.normal(0, 1, (WIDTHS[-1], WIDTHS[0]))
    return (centres[labels] + rng.normal(0, 4, (SAMPLES, WIDTHS[0]))).astype(np.float32), labels


def loss_and_gradients(tensors: Tensors, inputs: np.ndarray, labels: np.ndarray) -> tuple[float, Tensors]:
    layers = list(zip(tensors[::2], tensors[1::2], strict=True))
    outputs = [inputs]
    for number, (weight, bias) in enumerate(layers, start=1):
        value = outputs[-1] @ weight + bias
        outputs.append(value if number == len(layers) else np.maximum(value, 0))
    scores = outputs[-1] - outputs[-1].max(axis=1, keepdims=True)
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(chances[rows, labels] + 1e-9).mean())
    chances[rows, labels] -= 1
    back = chances / len(labels)
    gradients: Tensors = []
    for (weight, _), below in zip(reversed(layers), reversed(outputs[:-1]), strict=True):
        gradients[:0] = [below.T @ back, back.sum(axis=0)]
        back = (back @ weight.T) * (below > 0)
    return loss, gradients


def at_once(connection: socket.socket) -> socket.socket:
    """Switch off Nagle's algorithm, which would delay a header until the previous message is acknowledged."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def push(connection: socket.socket, number: int, tensor: np.ndarray) -> None:
    data = np.ascontiguousarray(tensor)
    connection.sendall(HEADER.pack(number, data.nbytes))
    connection.sendall(memoryview(data).cast("B"))


def pull(connection: socket.socket, like: np.ndarray) -> tuple[int, np.ndarray]:
    """The index and the data of the next tensor; EOFError if the other side has ended."""
    number, size = HEADER.unpack(receive(connection, HEADER.size))
    return number, np.frombuffer(receive(connection, size), dtype=like.dtype)


def receive(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        got = connection.recv_into(view)
        if got == 0:
            raise EOFError
        view = view[got:]
    return data


def serve(options: Any) -> None:
    """Serve every `servers`-th tensor until the workers have ended."""
    tensors = initial()
    mine = range(options.number, len(tensors), options.servers)
    with socket.socket(fileno=options.listen) as listening:
        connections = [at_once(listening.accept()[0]) for _ in range(options.workers)]
    try:
        while True:
            totals = {number: np.zeros_like(tensors[number]) for number in mine}
            for connection in connections:
                for _ in mine:
                    number, gradient = pull(connection, tensors[0])
                    totals[number] += gradient.reshape(tensors[number].shape)
            for number, total in totals.items():
                tensors[number] -= RATE / options.workers * total
            for connection in connections:
                for number in mine:
                    push(connection, number, tensors[number])
    except (EOFError, ConnectionError):
        return


def work(options: Any) -> None:
    """Train on batches of this worker until all steps are done."""
    tensors = initial()
    inputs, labels = dataset()
    rng = np.random.default_rng(2 + options.number)
    servers = [at_once(socket.create_connection(("127.0.0.1", port))) for port in options.ports]
    began = time.perf_counter()
    for step in range(1, options.steps + 1):
        chosen = rng.integers(0, SAMPLES, BATCH)
        loss, gradients = loss_and_gradients(tensors, inputs[chosen], labels[chosen])
        time.sleep(options.step_seconds)
        for number, gradient in enumerate(gradients):
            push(servers[number % len(servers)], number, gradient)
        for number, tensor in enumerate(tensors):
            _, data = pull(servers[number % len(servers)], tensor)
            tensors[number] = data.reshape(tensor.shape)
        if options.number == 0:
            print(f"step {step} loss {loss:.4f}", flush=True)
    if options.number == 0:
        print(f"{options.steps / (time.perf_counter() - began):.3f} steps per second", flush=True)


def start(options: Any) -> int:
    """Start the servers, then the workers; return the highest exit code, 0 if all succeed."""
    sizes = [tensor.nbytes for tensor in initial()]
    share = max(sizes) / sum(sizes)
    print(f"{len(sizes)} tensors, {sum(sizes):,} bytes, the largest {share:.1%}", flush=True)
    common = ["--workers", str(options.workers), "--servers", str(options.servers)]
    command = [sys.executable, __file__, *common]
    listening = [socket.create_server(("127.0.0.1", 0)) for _ in range(options.servers)]
    processes = []
    for number, each in enumerate(listening):
        role = ["--role", "server", "--number", str(number), "--listen", str(each.fileno())]
        processes.append(subprocess.Popen([*command, *role], pass_fds=[each.fileno()]))
    ports = [str(each.getsockname()[1]) for each in listening]
    steps = ["--steps", str(options.steps), "--step-seconds", str(options.step_seconds)]
    for number in range(options.workers):
        role = ["--role", "worker", "--number", str(number), "--ports", *ports]
        processes.append(subprocess.Popen([*command, *steps, *role]))
    for each in listening:
        each.close()
    return max(abs(process.wait()) for process in processes)


def arguments() -> Any:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workers", type=int, default=2, help="default %(default)s")
    parser.add_argument("--servers", type=int, default=3, help="default %(default)s")
    parser.add_argument("--steps", type=int, default=1000, help="total number of steps (default %(default)s)")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="sleep so long in every step")
    for name, kind in {"--role": str, "--number": int, "--listen": int}.items():
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--ports", type=int, nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if options.role == "server":
        serve(options)
    elif options.role == "worker":
        work(options)
    else:
        sys.exit(start(options))


if __name__ == "__main__":
    main()
