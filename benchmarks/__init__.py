"""Speed, measured: `make bench` or `python -m benchmarks [captum] [zennit] [grad-cam] [lime] [rise] [standard-run]`."""
