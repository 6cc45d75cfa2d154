"""One person's device, or a household's, shop's or hospital's with many people.

A node owns histories, private parameters and keys. `Node` (`device.py`) is the clients' half of a
round: it answers the server's requests (`tacit.wire.messages`) and recommends from what it keeps.
"""
