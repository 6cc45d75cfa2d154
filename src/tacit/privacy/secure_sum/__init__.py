"""Sums of vectors of which a server learns nothing but the sum, with drop-outs.

The protocol follows Bonawitz et al. ("Practical Secure Aggregation for Privacy-Preserving Machine
Learning", 2017) on a sparse graph, as Bell et al. ("Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead", 2020) do. A round has four steps; every arrow is a typed message
(`messages`), and nothing here opens a connection.

1. Each client sends two fresh X25519 public keys, signed by its node key. The server draws a random
   regular graph and sends each client the signed keys of its neighbours.
2. Each client draws a seed for a mask of its own. It splits this seed, and its secret key for
   pairwise masks, into Shamir shares: one of each for every neighbour, encrypted. The server passes
   them on and says by that who is still there.
3. Each client sends its vector: fixed point, a share of Skellam noise, the mask of its own seed,
   and one mask for each neighbour, added by one of the two and subtracted by the other.
4. For every neighbour, a client reveals one share: of the own seed where the neighbour's vector
   arrived, of the pairwise key where it did not. Never both. The server takes the masks away.

**Who is kept out.** A server that follows the protocol and is curious, together with up to
`colluders` clients who tell it all they know. It learns the sum of the survivors, with its noise,
who took part and who dropped out. A wrong share, a second upload, a stranger, a wrong size or a
message of another round is refused and counted.

**What is not covered.**
- A server that lies about who dropped out: it could tell some neighbours that a client dropped out
  and others that it did not, and open that client's vector. This needs a list of survivors that the
  clients sign, which is not there.
- Sybils: node keys come from a directory that somebody has to keep. A server that registers clients
  of its own is a server with more colluders.
- What the sum itself tells. That is what the noise is for (`tacit.privacy.skellam`).
- Clients that send wrong vectors or damage the round: a client can spoil the sum or stop a round,
  though not read others.
- A plan that promises little: a client's owner has to look at the plan before it joins. A server
  that gives two clients different plans gets no sum, since every key depends on the plan.
- Parts of the graph between which all neighbours collude or drop out. Their sums could be told
  apart. The server refuses where it sees such parts, but it does not know the colluders;
  `plan.neighbourhood` bounds the chance that one client stands alone.
"""
