"""Run the speed comparisons by name, all of them by default."""

from __future__ import annotations

import platform
import sys
from importlib import import_module

import torch

EVERY = {
    "captum": "captum_ratios",
    "zennit": "zennit_ratios",
    "grad-cam": "grad_cam_ratios",
    "transformers": "transformers",
    "lime": "lime_ratios",
    "rise": "rise",
    "standard-run": "standard_run",
    "jobs": "jobs",
    "dry-run": "dry_run",
    "projection": "projection",
    "focus": "focus",
    "clevr-rendering": "clevr_rendering",
    "clevr-questions": "clevr_questions",
    "clevr-ground-truth": "clevr_ground_truth",
    "clevr-xai-scores": "clevr_xai_scores",
    "clevr-xai-pipeline": "clevr_xai_pipeline",
    "masks": "mask_scores",
    "many-cases": "many_cases",
    "simulation": "simulation",
}

if __name__ == "__main__":
    chosen = sys.argv[1:] or list(EVERY)
    unknown = set(chosen) - set(EVERY)
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}; there is: {', '.join(EVERY)}")
    torch.set_num_threads(1)  # one thread, so that CPU seconds are comparable
    print(f"{platform.machine()}, torch {torch.__version__}, one thread\n")
    for name in chosen:
        import_module(f"benchmarks.{EVERY[name]}").main()
        print()
