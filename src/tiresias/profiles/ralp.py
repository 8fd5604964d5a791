"""RALP-style layer placement: compute-heavy layers on all workers, memory-heavy ones on a single worker.

A reconstruction from what is public about RALP (arXiv 1901.05803); its text was not available to us. If the
sizes of a network's layers are far from normally distributed and skewed to the right, a few layers have most
of the parameters. If one worker computes those for the whole gang, only the activations at the cut are sent
and not their parameters; the price is the time of that worker. The cut is where an iteration is shortest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.links import Shape
from tiresias.profiles.model import Cut, ModelProfile, Parallelism
from tiresias.profiles.network import Iteration, Network
from tiresias.profiles.normality import Normality, normality

LEAST_SKEWNESS = 1.0
MOST_P = 0.05


@dataclass(frozen=True, slots=True)
class Split:
    """A model before and after the cut; `hybrid` is None if no cut helps, and `reason` says why."""

    profile: ModelProfile
    hybrid: ModelProfile | None
    normality: Normality
    reason: str
    before: Iteration
    after: Iteration

    @property
    def before_bytes(self) -> int:
        """Bytes that a worker sends in an iteration, one way."""
        return self.profile.sent_bytes

    @property
    def after_bytes(self) -> int:
        return self.before_bytes if self.hybrid is None else sent_bytes(self.hybrid)

    @property
    def moved_bytes(self) -> int:
        """Bytes of parameters that are no longer sent."""
        if self.hybrid is None or self.hybrid.cut is None:
            return 0
        return sum(each.sent_bytes for each in self.profile.tensors[self.hybrid.cut.tensors :])


def sent_bytes(hybrid: ModelProfile) -> int:
    """Bytes that a worker of a hybrid job sends in an iteration, one way."""
    if hybrid.cut is None:
        return hybrid.sent_bytes
    ahead = sum(each.sent_bytes for each in hybrid.tensors[: hybrid.cut.tensors])
    return ahead + hybrid.cut.activation_bytes


def split(profile: ModelProfile, network: Network, shape: Shape) -> Split:
    """Cut the model where an iteration of this gang is shortest, if cutting helps at all."""
    if not profile.layers or profile.batch is None:
        raise ProfileError(
            f"{profile.name}: its layers or its batch size are not known; layer placement needs both "
            f"(the models of the zoo have them: tiresias profile --list)"
        )
    shaped = normality(profile.layer_bytes())
    before = network.iteration(profile, shape)

    def plain(reason: str) -> Split:
        return Split(profile, None, shaped, reason, before, before)

    if profile.parallelism is Parallelism.SHARDED:
        return plain("its parameters are sharded because no single worker can hold them")
    skewed = f"layer sizes have skewness {shaped.skewness:.2f} (chance {shaped.p:.2g} if they were normal)"
    if shaped.p > MOST_P or shaped.skewness < LEAST_SKEWNESS:
        return plain(f"{skewed}: no few layers stand out")
    cuts = [hybrid_of(profile, layer) for layer in range(1, len(profile.layers))]
    if not cuts:
        return plain("a single layer cannot be cut")
    best = min(cuts, key=lambda each: (network.iteration(each, shape).seconds, sent_bytes(each)))
    after = network.iteration(best, shape)
    if after.seconds >= before.seconds:
        return plain(f"{skewed}, but no cut makes an iteration shorter here")
    assert best.cut is not None
    name = profile.layers[best.cut.layer].name
    return Split(profile, best, shaped, f"{skewed}: cut ahead of {name}", before, after)


def hybrid_of(profile: ModelProfile, layer: int) -> ModelProfile:
    """The same model with the layers from `layer` on computed by one worker."""
    ahead, tail = profile.layers[:layer], profile.layers[layer:]
    flops = sum(each.flops for each in profile.layers)
    cut = Cut(
        layer=layer,
        tensors=sum(each.tensors for each in ahead),
        activation_bytes=(profile.batch or 1) * ahead[-1].output_bytes,
        tail_share=sum(each.flops for each in tail) / flops if flops else 0.0,
    )
    return replace(profile, name=f"{profile.name}+ralp", cut=cut)
