"""Lattice Boltzmann: populations that collide in cells and stream to neighbours."""
