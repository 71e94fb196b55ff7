"""Memory: what is available, what a training will take at its peak, and the engine that fits."""
