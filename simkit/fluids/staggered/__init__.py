"""Incompressible flow by finite volumes on staggered grids."""
