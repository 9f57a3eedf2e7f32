"""Equations on periodic grids, one file each."""
