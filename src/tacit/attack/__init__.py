"""What others can read out of what is sent, measured by trying."""
