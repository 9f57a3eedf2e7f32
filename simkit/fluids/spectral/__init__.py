"""Systems on periodic grids, stepped as Fourier series."""
