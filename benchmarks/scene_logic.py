"""How quick the scene-logic network is: python benchmarks/scene_logic.py DATASET (with complex questions, one thread).

CPU seconds of this process, the best of three; questions in the data set's order, ten about each picture.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from heatproof import explain
from heatproof.benchmarks.clevr_xai.answers import pictures, tokens
from heatproof.clevr.files import open_dataset
from heatproof.models.vqa import scene_logic_network

FORWARD, EXPLAINED = 640, 32


def cpu_seconds(work: Callable[[], object]) -> float:
    spent = []
    for _ in range(3):
        began = time.process_time()
        work()
        spent.append(time.process_time() - began)
    return min(spent)


def main(folder: str) -> None:
    torch.set_num_threads(1)
    network, questions = scene_logic_network(), open_dataset(Path(folder)).questions("complex")[:FORWARD]
    shown, asked = pictures(questions, network.size), tokens(network, questions)

    def answer(module: torch.nn.Module) -> Callable[[], object]:
        def work() -> None:
            with torch.no_grad():
                for start in range(0, len(questions), network.at_once):
                    module(shown[start : start + network.at_once], asked[start : start + network.at_once])

        return work

    assert network.fast is not None
    for name, module in (("each picture once", network.fast), ("each question its picture", network.module)):
        print(f"forward, {name}: {len(questions) / cpu_seconds(answer(module)):.0f} questions a CPU second")
    some, said = shown[:EXPLAINED], asked[:EXPLAINED]

    def cost(method: str) -> float:
        return cpu_seconds(lambda: explain(network.module, some, method, context=(said,)))

    gradient = cost("gradient")
    for method in ("lrp:composite=relation_network,low=0.0,high=1.0", "excitation_backprop", "guided_backprop"):
        print(f"{method.partition(':')[0]}: {cost(method) / gradient:.2f} gradients")


if __name__ == "__main__":
    main(sys.argv[1])
