"""Which windows fire, which go, and the next state: one module per family of windows."""
