"""Speed, measured: `make bench` or `python -m benchmarks [captum] [zennit] [rise] [standard-run]`."""
