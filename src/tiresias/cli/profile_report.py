"""The results of `tiresias profile` as values; profile_tables.py prints them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tiresias.profiles import ralp
from tiresias.profiles.errors import ProfileError
from tiresias.profiles.histogram import Bin, histogram
from tiresias.profiles.links import PRESETS, Links, packed_shape, spread_shape
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Iteration, Network
from tiresias.profiles.ralp import Split
from tiresias.profiles.verdict import SkewRule, Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """A model, and a gang of it on a network: packed and spread."""

    profile: ModelProfile
    network: str
    gpus: int
    packed_nodes: int
    packed: Iteration | None  # None if the compute time is not known
    spread: Iteration | None
    verdict: Verdict
    split: Split | None

    @property
    def bins(self) -> list[Bin]:
        return histogram(self.profile)

    @property
    def slowdown(self) -> float | None:
        return self.spread.seconds / self.packed.seconds if self.spread and self.packed else None

    def as_dict(self) -> dict[str, Any]:
        model = self.profile
        body: dict[str, Any] = {
            "name": model.name,
            "tensors": len(model.tensors),
            "total_bytes": model.total_bytes,
            "sent_bytes": model.sent_bytes,
            "largest": {"name": model.largest.name, "bytes": model.largest.bytes} if model.largest else None,
            "skew": model.skew,
            "parallelism": model.parallelism.value,
            "compute_s": model.compute_s,
            "gpu": model.gpu,
            "batch": model.batch,
            "checkpoint_s": model.checkpoint_s,
            "resume_s": model.resume_s,
            "source": model.source,
            "histogram": [each._asdict() for each in self.bins],
            "consolidate": self.verdict.consolidate,
            "reason": self.verdict.reason,
            "network": self.network,
            "gpus": self.gpus,
            "packed_nodes": self.packed_nodes,
            "packed_s": self.packed.seconds if self.packed else None,
            "spread_s": self.spread.seconds if self.spread else None,
            "slowdown": self.slowdown,
        }
        if self.split is not None:
            body["layers"] = _split(self.split)
        return body


def _split(split: Split) -> dict[str, Any]:
    cut = split.hybrid.cut if split.hybrid else None
    sizes = split.profile.layer_bytes()
    return {
        "skewness": split.normality.skewness,
        "p_normal": split.normality.p,
        "reason": split.reason,
        "cut_layer": split.profile.layers[cut.layer].name if cut else None,
        "moved_bytes": split.moved_bytes,
        "activation_bytes": cut.activation_bytes if cut else None,
        "before": {"sent_bytes": split.before_bytes, "seconds": split.before.seconds},
        "after": {"sent_bytes": split.after_bytes, "seconds": split.after.seconds},
        "layers": [
            {
                "name": layer.name,
                "kind": layer.kind,
                "bytes": size,
                "output_bytes": layer.output_bytes,
                "flops": layer.flops,
                "on": "one worker" if cut and number >= cut.layer else "all workers",
            }
            for number, (layer, size) in enumerate(zip(split.profile.layers, sizes, strict=True))
        ],
    }


def report(profile: ModelProfile, network: str, gpus: int, layers: bool) -> Report:
    """The report on a gang of `gpus` GPUs on a named network."""
    links = find_links(network)
    packed = packed_shape(gpus, links.node_gpus)
    model = Network(links)
    is_timed = profile.compute_s is not None
    return Report(
        profile=profile,
        network=network,
        gpus=gpus,
        packed_nodes=len(packed[0]),
        packed=model.iteration(profile, packed) if is_timed else None,
        spread=model.iteration(profile, spread_shape(gpus, links.node_gpus, gpus)) if is_timed else None,
        verdict=SkewRule().verdict(profile),
        split=ralp.split(profile, model, packed) if layers else None,
    )


def find_links(name: str) -> Links:
    if name not in PRESETS:
        raise ProfileError(f"there is no network {name!r}; choose one of {', '.join(PRESETS)}")
    return PRESETS[name]
