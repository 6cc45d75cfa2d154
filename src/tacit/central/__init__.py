"""Training on all histories at once: samples, lazy rows, and models of pairs."""
