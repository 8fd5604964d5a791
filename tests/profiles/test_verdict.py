"""Who deserves locality: the paper's rule, ours, and the limit fitted again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiresias.profiles import zoo
from tiresias.profiles.links import PRESETS, Sharing
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.network import Network
from tiresias.profiles.packlimit import PACKLIMIT, fit_limit
from tiresias.profiles.verdict import Choice, SkewRule, SlowdownRule
from tiresias.testing import published

TESTBED = Network(PRESETS["tiresias-testbed"])


def choice(run_s: float = 1000.0, wait_s: float = 100.0, gpus: int = 8) -> Choice:
    return Choice.usual(gpus, node_gpus=4, run_s=run_s, wait_s=wait_s)


def test_a_usual_choice_is_between_the_fewest_nodes_and_the_most():
    assert choice().packed == ((4, 4),)
    assert choice().spread == ((1,) * 8,)


def test_the_papers_rule_names_the_tensor_that_decides():
    verdict = SkewRule().verdict(zoo.find("vgg16"), choice())
    assert verdict == (True, "fc0.weight is 74.3% of what is sent, above the limit of 37.8%")
    verdict = SkewRule().verdict(zoo.find("resnet50"), choice())
    assert verdict == (False, "no tensor is more than 9.2% of what is sent; the limit is 37.8%")


def test_the_limit_is_an_argument():
    assert SkewRule(limit=0.05).verdict(zoo.find("resnet50")).consolidate
    assert not SkewRule(limit=0.8).verdict(zoo.find("vgg16")).consolidate


def test_a_model_with_unknown_tensors_is_not_consolidated():
    verdict = SkewRule().verdict(ModelProfile("ring", unseen_bytes=10**9))
    assert not verdict.consolidate
    assert "tensors of ring are not known" in verdict.reason


@pytest.mark.parametrize("rule", [SkewRule(), SlowdownRule(TESTBED)])
def test_one_gpu_needs_no_locality(rule):
    verdict = rule.verdict(zoo.find("vgg16"), choice(gpus=1))
    assert verdict == (False, "one GPU: there is nothing to consolidate")


def test_our_rule_weighs_the_loss_against_the_wait():
    rule, vgg = SlowdownRule(TESTBED), zoo.find("vgg16")
    slowdown = TESTBED.slowdown(vgg, ((1,) * 8,))
    worth_s = (slowdown - 1) * 1000
    assert worth_s > 200
    assert rule.verdict(vgg, choice(wait_s=worth_s - 1)).consolidate
    verdict = rule.verdict(vgg, choice(wait_s=worth_s + 1))
    assert not verdict.consolidate
    assert f"{slowdown:.2f}x as long" in verdict.reason
    assert f"no more than the wait of {worth_s + 1:,.0f} s" in verdict.reason


def test_our_rule_lets_a_short_run_be_spread_and_a_harmless_one_too():
    rule = SlowdownRule(TESTBED)
    assert not rule.verdict(zoo.find("vgg16"), choice(run_s=10, wait_s=60)).consolidate
    assert not rule.verdict(zoo.find("resnet50"), choice(run_s=10**6, wait_s=3600)).consolidate


def test_our_rule_counts_the_jobs_that_would_share_the_links():
    rule, vgg = SlowdownRule(TESTBED), zoo.find("vgg16")
    alone = choice(wait_s=600)
    assert not rule.verdict(vgg, alone).consolidate
    assert rule.verdict(vgg, replace(alone, sharing=Sharing(rack=4))).consolidate


def test_without_a_compute_time_our_rule_goes_by_the_skew():
    untimed = replace(zoo.find("vgg16"), compute_s=None)
    verdict = SlowdownRule(TESTBED).verdict(untimed, choice())
    assert verdict.consolidate
    assert verdict.reason.startswith("its compute time is not known; fc0.weight is 74.3%")


def test_the_ten_models_give_the_default_limit():
    slowdowns = published.tiresias_fig_3()
    history = [(zoo.find(name).skew, slowdown) for name, slowdown in slowdowns.items()]
    assert fit_limit(history) == pytest.approx(PACKLIMIT, abs=0.001)


def test_without_history_the_limit_stays():
    assert fit_limit([]) == PACKLIMIT
    assert fit_limit([], default=0.5) == 0.5


def test_jobs_that_part_clearly_are_parted_in_the_middle_of_the_gap():
    assert fit_limit([(0.1, 1.0), (0.2, 1.0), (0.6, 2.0), (0.9, 1.5)]) == pytest.approx(0.4)


def test_a_costly_mistake_counts_more_than_a_cheap_one():
    """One job of little skew that suffered much outweighs those in between that would not have suffered."""
    history = [(0.1, 1.0), (0.2, 3.0), (0.3, 1.0), (0.4, 1.0), (0.6, 2.0)]
    assert fit_limit(history) == pytest.approx(0.15)
    assert fit_limit([(0.1, 1.0), (0.2, 1.15), (0.3, 1.0), (0.4, 1.0), (0.6, 2.0)]) == pytest.approx(0.5)


def test_if_all_suffer_all_are_consolidated_and_if_none_does_none_is():
    assert fit_limit([(0.1, 2.0), (0.5, 3.0)]) == 0.0
    assert fit_limit([(0.1, 1.0), (0.5, 1.0)]) == 1.0


def test_jobs_of_equal_skew_are_on_the_same_side():
    assert fit_limit([(0.3, 1.0), (0.3, 1.9), (0.7, 2.0)]) == 0.0
    assert fit_limit([(0.3, 1.0), (0.3, 1.0), (0.3, 1.15), (0.7, 2.0)]) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(1.0, 5.0)), min_size=1, max_size=12))
def test_no_other_cut_regrets_less(history):
    def regret(limit: float) -> float:
        return sum(
            max(0.0, slowdown - 1.1) if skew <= limit else max(0.0, 1.1 - slowdown)
            for skew, slowdown in history
        )

    fitted = fit_limit(history)
    assert 0 <= fitted <= 1
    cuts = [0.0, *(skew for skew, _ in history), 1.0]
    assert regret(fitted) <= min(map(regret, cuts)) + 1e-9
