"""Recognises how the processes of a gang communicate: parameter servers, or an exchange of chunks.

Tensors are visible if each message is one, as with parameter servers. In an all-reduce the gradients are
collected in buckets and cut into chunks, whose sizes say nothing about tensors. The two are distinguished by
these rules:

- A ring sends one way: much to the next process, and nearly nothing back.
- With servers, the processes have two sides, and there are links only between the sides. A link carries the
  same tensors both ways, gradients up and parameters down. A server sends the same to each of its workers.
- What is sent for the model comes back. A process that sends much and receives next to nothing sends data,
  and one that only receives keeps something: neither is a parameter server, and their links are left out.
- With only two processes the links look the same in both cases. A server sends after it has received; in an
  all-reduce both send at the same time. If that is unclear, chunks have equal sizes and most tensors do not.

When in doubt, the answer is that tensors are not visible.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from tiresias.observe.gang import Gang, Link, Node

ALIKE = 0.9  # share of the bytes in which two bags must agree to be alike
EQUAL = 0.02  # relative difference up to which two sizes count as equal
HEADER_BYTES = 256  # the largest message that may be a header
HEAVY = 0.05  # share of the heaviest link's bytes that makes a link heavy
ONE_WAY = 0.5  # share of the bytes without as many in the other direction that makes a ring
REQUESTS = 0.1  # share of what a process sends, or receives, below which the other direction is no answer
LARGE = 0.01  # share of the largest message's size that makes a message large
TURNS = 3  # changes of the sender per iteration, at most, if two processes take turns (ideally two)
CHUNKS = 0.8  # share of the bytes in messages of equal size from which on they are taken for chunks
SO_MANY = 4  # messages of the largest size, at least, if they are chunks


class Pattern(StrEnum):
    """How the processes of a gang keep their copies of the model the same."""

    SERVERS = "parameter servers"
    RING = "ring all-reduce"
    EXCHANGE = "exchange"  # all-reduce of another kind, pipeline, all-to-all
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Seen:
    """The pattern, and what it shows of the model."""

    pattern: Pattern
    workers: int
    servers: int
    why: str  # a sentence: why tensors are visible, or why not
    tensor_bytes: tuple[int, ...] = ()  # largest first; empty if tensors are not visible
    model_bytes: int | None = None


def look(gang: Gang) -> Seen:
    """The pattern of a gang's links."""
    links = _without_data(gang.links)
    if not links:
        count = len({node for pair in gang.links for node in pair})
        why = "all that is sent goes one way, from processes that receive next to nothing: this is data"
        return Seen(Pattern.UNKNOWN, count, 0, why)
    gang = replace(gang, links=links)
    most = max(link.bytes for link in gang.links.values())
    heavy = {nodes: link for nodes, link in gang.links.items() if link.bytes >= HEAVY * most}
    nodes = {node for pair in heavy for node in pair}
    count = len(nodes)
    if not gang.has_sequence:
        why = "messages are cut at random: only the bytes over time are repeated"
        return Seen(Pattern.UNKNOWN, count, 0, why)
    if (ring := _ring(heavy)) is not None:
        return ring
    sides = _sides(heavy)
    if sides is None:
        why = "every process sends to several others that send to each other too: these are chunks"
        return Seen(Pattern.EXCHANGE, count, 0, why)
    if count == 2 and all(isinstance(node, int) for node in nodes):
        return _pair(gang, heavy)
    servers = _servers(heavy, sides, gang.accepting)
    if servers is None:
        why = "no process sends the same to all that it sends to, as a server would: these are chunks"
        return Seen(Pattern.EXCHANGE, count, 0, why)
    return _tensors(gang, nodes - servers, servers)


def _without_data(links: dict[tuple[Node, Node], Link]) -> dict[tuple[Node, Node], Link]:
    """The links without those of processes that only send, such as one that reads samples for the others, and
    of observed processes that only receive, such as one that keeps logs.

    What is sent for the model comes back: from a server to its workers, or around a ring. What processes send
    that were not observed is not known, so only what is exchanged between observed ones counts.
    """
    sent: Counter[Node] = Counter()
    received: Counter[Node] = Counter()
    for (a, b), link in links.items():
        if isinstance(a, int) and isinstance(b, int):
            sent[a] += round(link.bytes)
            received[b] += round(link.bytes)
    nodes = {*sent, *received}
    aside = {
        node for node in nodes if min(sent[node], received[node]) < REQUESTS * max(sent[node], received[node])
    }
    kept = {pair: link for pair, link in links.items() if not aside & set(pair)}
    return kept if len(kept) == len(links) else _without_data(kept)


def _ring(heavy: dict[tuple[Node, Node], Link]) -> Seen | None:
    """A ring: each process sends to one and receives from another, and nothing goes back."""
    unanswered = 0.0
    for (a, b), link in heavy.items():
        back = heavy.get((b, a))
        unanswered += max(0.0, link.bytes - (back.bytes if back is not None else 0.0))
    total = sum(link.bytes for link in heavy.values())
    senders, receivers = {a for a, _ in heavy}, {b for _, b in heavy}
    if unanswered < ONE_WAY * total or senders != receivers:
        return None
    size = len(senders)
    share = 2 * (size - 1) / size  # what each of them sends, relative to the size of the model
    return Seen(
        Pattern.RING,
        size,
        0,
        "a ring all-reduce sends chunks of its buffers, not tensors",
        model_bytes=round(total / size / share),
    )


def _sides(heavy: dict[tuple[Node, Node], Link]) -> tuple[frozenset[Node], frozenset[Node]] | None:
    """The nodes divided into two sides with links only between the sides; None if that is impossible."""
    near: dict[Node, set[Node]] = {}
    for a, b in heavy:
        near.setdefault(a, set()).add(b)
        near.setdefault(b, set()).add(a)
    side: dict[Node, bool] = {}
    for start in sorted(near, key=str):
        if start in side:
            continue
        side[start] = False
        todo = [start]
        while todo:
            node = todo.pop()
            for other in near[node]:
                if other not in side:
                    side[other] = not side[node]
                    todo.append(other)
                elif side[other] == side[node]:
                    return None
    return (
        frozenset(node for node, is_second in side.items() if not is_second),
        frozenset(node for node, is_second in side.items() if is_second),
    )


def _servers(
    heavy: dict[tuple[Node, Node], Link],
    sides: tuple[frozenset[Node], frozenset[Node]],
    accepting: frozenset[Node],
) -> frozenset[Node] | None:
    """The side on which each node exchanges the same with all its peers."""
    outside = [side for side in sides if all(isinstance(node, str) for node in side)]
    if outside:
        return outside[0]  # processes that the command did not start are servers
    able = [side for side in sides if all(_is_even(heavy, node) for node in side)]
    if len(able) == 2:  # a star with equal arms: servers are the processes that accept connections
        named = [side for side in able if side & accepting]
        able = named if len(named) == 1 else [min(able, key=len)]
    return able[0] if able else None


def _is_even(heavy: dict[tuple[Node, Node], Link], node: Node) -> bool:
    links = [link.counts for pair, link in heavy.items() if node in pair]
    return all(_is_alike(links[0], each) for each in links[1:])


def _pair(gang: Gang, heavy: dict[tuple[Node, Node], Link]) -> Seen:
    """Two processes: a worker and its server, or two workers that exchange."""
    (a, b), first = max(heavy.items(), key=lambda each: each[1].bytes)
    second = gang.links.get((b, a))
    if second is not None and _repeated(_without_headers(first.counts)) >= CHUNKS:
        times = [times for size, times in first.counts.items() if size >= LARGE * max(first.counts)]
        if len(times) == 1 or not _take_turns(first, second):
            why = "two processes send each other messages of equal sizes at the same time: these are chunks"
            return Seen(Pattern.RING, 2, 0, why, model_bytes=round((first.bytes + second.bytes) / 2))
    server = a if a in gang.accepting and b not in gang.accepting else b
    return _tensors(gang, {a, b} - {server}, frozenset({server}))


def _take_turns(first: Link, second: Link) -> bool:
    """Whether two nodes send their large messages one after the other, and not at the same time.

    If both send at the same time, messages of the two alternate.
    """
    at: list[int] = []
    sender: list[int] = []
    per_iteration = 0
    for number, link in enumerate((first, second)):
        least = max(link.counts, default=0) * LARGE
        per_iteration += sum(times for size, times in link.counts.items() if size >= least)
        for flow in link.flows:
            times = flow.at_ns[flow.sizes >= least]
            at += times.tolist()
            sender += [number] * len(times)
    ordered = np.array(sender)[np.argsort(at)]
    changes = np.count_nonzero(np.diff(ordered)) / max(1, len(ordered) - 1)
    return bool(changes * per_iteration <= TURNS)


def _tensors(gang: Gang, workers: set[Node], servers: frozenset[Node]) -> Seen:
    """The tensors: what a worker sends to all servers, as far as it comes back from them."""
    found = Counter(
        tuple(sorted(_model_of(gang, worker, workers).elements(), reverse=True))
        for worker in workers
        if isinstance(worker, int)
    )
    sizes = max(found, key=lambda each: (found[each], sum(each)), default=())
    everyone = {node for a, b in gang.links if a in workers or b in workers for node in (a, b)}
    named = len([node for node in everyone - workers if _carries(gang, node, workers)]) or len(servers)
    total = sum(sizes)
    chunks = sizes.count(sizes[0]) if sizes else 0
    if len(set(sizes)) < 2:
        why = "all messages of an iteration have one size: these are not tensors"
    elif chunks >= SO_MANY and chunks * sizes[0] >= CHUNKS * total:
        why = f"{chunks} messages of an iteration have the largest size, {sizes[0]:,} bytes: these are chunks"
    else:
        why = "each message between workers and servers is a tensor"
        return Seen(Pattern.SERVERS, len(workers), named, why, sizes, total)
    return Seen(Pattern.SERVERS, len(workers), named, why, model_bytes=total or None)


def _carries(gang: Gang, node: Node, workers: set[Node]) -> bool:
    """Whether the workers send messages to this node that are repeated."""
    return any((worker, node) in gang.links and gang.links[worker, node].counts for worker in workers)


def _model_of(gang: Gang, worker: Node, workers: set[Node]) -> Counter[int]:
    model: Counter[int] = Counter()
    for (sender, to), link in gang.links.items():
        if sender != worker or to in workers:
            continue
        up = _without_headers(link.counts)
        back = gang.links.get((to, sender))
        down = _without_headers(back.counts) if back is not None else Counter()
        both = up & down
        model += both if _bytes_of(both) >= ALIKE * _bytes_of(up) else up  # requests are sent up only
    return model


# --- bags of messages: how many there are of each size, without their order ---------------------------


def _without_headers(counts: Counter[int]) -> Counter[int]:
    """The bag without the small messages of one size that precede each other message."""
    total = sum(counts.values())
    for size, times in counts.items():
        if size <= min(HEADER_BYTES, max(counts) / 10) and 2 * times == total:
            return Counter({other: n for other, n in counts.items() if other != size})
    return counts


def _repeated(counts: Counter[int]) -> float:
    """The share of the bytes that is in messages for which there is another of equal size."""
    sizes = sorted(counts.elements())
    near = [
        size
        for index, size in enumerate(sizes)
        if any(
            abs(other - size) <= EQUAL * size
            for other in sizes[max(0, index - 1) : index] + sizes[index + 1 : index + 2]
        )
    ]
    return sum(near) / max(1, sum(sizes))


def _is_alike(one: Counter[int], other: Counter[int]) -> bool:
    return _bytes_of(one & other) >= ALIKE * max(_bytes_of(one), _bytes_of(other))


def _bytes_of(counts: Counter[int]) -> int:
    return sum(size * times for size, times in counts.items())
