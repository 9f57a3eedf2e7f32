"""Boxes, units and atoms."""
