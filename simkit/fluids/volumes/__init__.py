"""Compressible gas and shallow water by finite volumes."""
