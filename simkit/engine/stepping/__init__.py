"""Fixed steps, and the own steps of particles."""
