"""Grids, boundary conditions and their ghost cells."""
