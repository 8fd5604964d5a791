"""Makes an estimate of a start now and then, so that the manager learns how good they are here."""

from __future__ import annotations

import asyncio
import time

from tiresias.live.eta import LEAST_HISTORY, estimate
from tiresias.live.service import Service

EVERY_S = 2.0
CALM = 20  # between two estimates lies so many times what the last one took


async def foresee(service: Service, every_s: float = EVERY_S) -> None:
    """Until it is cancelled."""
    forecasts, outlooks = service.manager.forecasts, service.manager.queries.outlooks
    pause_s = every_s
    while True:
        await asyncio.sleep(pause_s)
        pause_s = every_s
        id = forecasts.next_job()
        if id is None:
            continue
        began, at = time.perf_counter(), service.manager.now()
        question = outlooks.start(id)
        if (
            question is not None
            and len(question[1]) >= LEAST_HISTORY
            and forecasts.is_worthwhile(question[0])
        ):
            found = await asyncio.to_thread(estimate, *question, id)
            forecasts.keep(id, at, found)
        pause_s = max(every_s, CALM * (time.perf_counter() - began))
