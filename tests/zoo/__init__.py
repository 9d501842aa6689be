"""Networks of every kind, and what every method must do on them."""
