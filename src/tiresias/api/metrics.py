"""Metrics for Prometheus. Gauges are read from the manager when they are requested.

No label has the name of a job: their number has no bound. GPU time is stated by user, as `tir usage` states
it to everybody, for a bounded number of users; that of all further ones is added up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiresias import __version__
from tiresias.api.callers import AnyCaller
from tiresias.api.described import Described
from tiresias.core.model import INFINITY
from tiresias.live.answers import ManagerStatus
from tiresias.live.manager import Manager
from tiresias.live.tallies import WAITS_S, Tallies

router = APIRouter(route_class=Described)
MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Figures:
    """The metrics of the manager and those of the API itself."""

    def __init__(self, manager: Manager):
        self.registry = CollectorRegistry()
        self.registry.register(_OfManager(manager))
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "tiresias_http_requests",
            "Requests answered.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "tiresias_http_request_seconds",
            "Time until the answer began.",
            ["method", "route"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )


class _OfManager(Collector):
    def __init__(self, manager: Manager):
        self._manager = manager

    def describe(self) -> Iterable[GaugeMetricFamily]:
        return []

    def collect(self) -> Iterator[Metric]:
        status = self._manager.queries.status()
        yield from _of_status(status)
        yield from _of_slots(self._manager.queries.nodes.states())
        yield from _of_tallies(self._manager.tallies)


def _of_status(status: ManagerStatus) -> Iterator[GaugeMetricFamily]:
    info = GaugeMetricFamily("tiresias_info", "Always 1; see the labels.", labels=["version", "policy"])
    info.add_metric([__version__, status.policy], 1)
    yield info
    yield GaugeMetricFamily("tiresias_ready", "Whether jobs can be accepted.", float(status.is_ready))
    paused = float(bool(status.start_problem))
    yield GaugeMetricFamily("tiresias_starts_paused", "Whether the machine cannot start runs.", paused)
    yield GaugeMetricFamily("tiresias_uptime_seconds", "Seconds since the manager started.", status.uptime_s)
    jobs = GaugeMetricFamily("tiresias_jobs", "Jobs by phase, ended jobs included.", labels=["phase"])
    for phase, number in sorted(status.jobs.items()):
        jobs.add_metric([phase], number)
    yield jobs


def _of_tallies(tallies: Tallies) -> Iterator[Metric]:
    waits = HistogramMetricFamily(
        "tiresias_wait_seconds", "Time from the submission of a job to its first run.", labels=[]
    )
    total, buckets = 0, []
    for most_s, number in zip((*WAITS_S, INFINITY), tallies.waits, strict=True):
        total += number
        buckets.append(("+Inf" if most_s == INFINITY else f"{most_s}", total))
    waits.add_metric([], buckets, tallies.waited_s)
    yield waits
    yield CounterMetricFamily(
        "tiresias_preemptions", "Runs that were stopped for other jobs.", tallies.preemptions
    )
    gpu_s = CounterMetricFamily("tiresias_gpu_seconds", "GPU-seconds of service.", labels=["user"])
    for user, seconds in sorted(tallies.gpu_s().items()):
        gpu_s.add_metric([user], seconds)
    yield gpu_s
    lost = CounterMetricFamily(
        "tiresias_lost_gpu_seconds", "GPU-seconds of work that was not saved and is lost.", labels=["user"]
    )
    for user, seconds in sorted(tallies.lost_gpu_s().items()):
        lost.add_metric([user], seconds)
    yield lost


def _of_slots(nodes: Iterable[tuple[str, Mapping[str, int]]]) -> Iterator[GaugeMetricFamily]:
    slots = GaugeMetricFamily("tiresias_slots", "GPUs by node and state.", labels=["node", "state"])
    for node, states in nodes:
        for state, number in sorted(states.items()):
            slots.add_metric([node, state], number)
    yield slots


@router.get("/metrics", response_class=Response)
async def metrics(request: Request, caller: AnyCaller) -> Response:
    """Metrics for Prometheus."""
    figures: Figures = request.app.state.figures
    return Response(generate_latest(figures.registry), media_type=MEDIA_TYPE)


class Measured:
    """Counts requests by route and times them."""

    def __init__(self, app: ASGIApp, figures: Figures):
        self._app = app
        self._figures = figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_at = time.perf_counter()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                route = getattr(scope.get("route"), "path", "other")
                is_known = route != "other" and status != 405  # a client may send any word as a method
                method = scope["method"] if is_known else "other"
                self._figures.requests.labels(method, route, status).inc()
                self._figures.seconds.labels(method, route).observe(time.perf_counter() - begun_at)
            await send(message)

        await self._app(scope, receive, noted)
