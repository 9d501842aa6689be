"""What makes experiments out of runs: layouts, randomised models, biases found and planted."""
