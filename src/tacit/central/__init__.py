"""Training on all histories at once: samples, lazy rows, models of pairs and their kernels."""
