"""The server's half of a deployment: who may take part, what is let in, and how rounds are played.

`Coordinator` (`rounds.py`) asks nodes over any transport, checks what they answer before it touches
a sum (`admission.py`), and steps as the simulation does.
"""
