"""Description of a simulation: its parts, step sizes, tolerances and cache key."""
