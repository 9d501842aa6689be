"""What a plug-in's author runs: does all that the package adds keep Heatproof's contracts?"""

import torch
from heatproof_example.benchmark import Halves
from heatproof_example.pooling import mean_abs

import heatproof
from heatproof.testing import check_benchmark, check_explainer, check_metric


def test_the_explainer_keeps_the_contract():
    check_explainer("squared_gradient")


def test_the_explainer_is_the_square_of_the_gradient():
    linear = torch.nn.Linear(5, 3)
    found = heatproof.explain(
        torch.nn.Sequential(torch.nn.Flatten(), linear), torch.randn(4, 1, 5), "squared_gradient", target=2
    )
    assert torch.allclose(found, linear.weight[2].square().expand(4, 1, 5))


def test_the_metric_keeps_the_contract():
    check_metric("mask_coverage")


def test_the_pooling_is_found_by_its_name():
    relevance = torch.randn(2, 3, 4)
    assert torch.allclose(heatproof.pool(relevance, "mean_abs"), mean_abs(relevance.double()))


def test_the_benchmark_keeps_the_contract():
    check_benchmark(Halves)
