"""The network model against what others have measured, with the errors that the documentation tells."""

from __future__ import annotations

from statistics import fmean

import pytest

from tiresias.profiles.network import Software
from tiresias.testing import published


def test_the_models_that_suffer_when_spread_are_those_of_the_papers_figure():
    slowdowns = published.tiresias_fig_3()
    assert {name for name, slowdown in slowdowns.items() if slowdown > 1.1} == published.SUFFER
    assert min(slowdowns[name] for name in published.SUFFER) > 2
    others = [slowdown for name, slowdown in slowdowns.items() if name not in published.SUFFER]
    assert max(others) < 1.02


def test_one_node_of_eight_gpus_is_predicted_within_seven_percent_but_for_eight_gpus_over_nccl():
    rows = list(published.tensorflow_dgx1())
    outside = [row.what for row in rows if abs(row.error) > 0.07]
    assert outside == ["alexnet, batch 512, 8 GPUs", "vgg16, batch 32, 8 GPUs"]
    assert fmean(abs(row.error) for row in rows) < 0.04


def test_eight_nodes_over_ethernet_are_predicted_within_twelve_percent():
    rows = list(published.tensorflow_ec2())
    assert max(abs(row.error) for row in rows) < 0.125
    assert fmean(abs(row.error) for row in rows) < 0.04


def test_the_part_that_is_never_hidden_makes_that_fit_better():
    ideal = [abs(row.error) for row in published.tensorflow_ec2(Software(unhidden=0.0))]
    assert 0.055 < fmean(ideal) < 0.065


def test_sixteen_gpus_on_ever_more_nodes_are_predicted_within_thirteen_percent():
    two, four, eight = published.philly_16_gpus()
    assert two.predicted == 1.0
    assert two.predicted > four.predicted > eight.predicted
    assert max(abs(row.error) for row in (four, eight)) < 0.13


def test_phillys_resnet50_is_not_explained_by_its_links():
    """They lost 15 % on two nodes; at the bandwidth that they have, the model hides nearly all of it."""
    same, two, shared, crowded = published.philly_resnet50()
    assert same.predicted == 1.0
    assert two.error > 0.1
    assert shared.error > 0.4
    assert crowded.error > 0.4


def test_phillys_resnet50_fits_a_link_that_is_thirty_times_slower():
    bandwidth, rows = published.philly_fitted()
    assert rows[1].predicted == pytest.approx(0.854, abs=0.001)
    assert 12.5e9 / bandwidth > 30
    assert abs(rows[3].error) < 0.2
