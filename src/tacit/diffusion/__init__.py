"""A small denoising diffusion over rows of a table, guided by features; usable on its own."""
