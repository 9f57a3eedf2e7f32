"""Programs on lanes as kernels of a GPU: the whole loop in one kernel, its numbers in registers."""
