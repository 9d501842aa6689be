"""Run the speed comparisons by name, all of them by default."""

from __future__ import annotations

import platform
import sys

import torch

from benchmarks import captum_ratios, grad_cam_ratios, lime_ratios, rise, standard_run, zennit_ratios

EVERY = {
    "captum": captum_ratios.main,
    "zennit": zennit_ratios.main,
    "grad-cam": grad_cam_ratios.main,
    "lime": lime_ratios.main,
    "rise": rise.main,
    "standard-run": standard_run.main,
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(EVERY)
    unknown = set(chosen) - set(EVERY)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there is: {', '.join(EVERY)}")
    torch.set_num_threads(1)  # one thread, so that CPU seconds are comparable
    print(f"{platform.machine()}, torch {torch.__version__}, one thread\n")
    for name in chosen:
        EVERY[name]()
        print()
