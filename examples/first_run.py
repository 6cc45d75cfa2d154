"""A first run: FedMF on the planted dataset, in a temporary folder."""

import tempfile

import tacit

experiment = tacit.resolve("fedmf", data="planted", rounds=40, seed=0)

with tempfile.TemporaryDirectory() as folder:
    record = tacit.run(experiment, f"{folder}/fedmf")
    best = tacit.recommend(f"{folder}/fedmf", user="user-0", k=3)

for name, values in {"fedmf": record.metrics.full, **dict(record.reference.full)}.items():
    print(f"{name:13}  HR@10 {values['HR@10']:.4f}  NDCG@10 {values['NDCG@10']:.4f}")
print("round", record.selected_round, "was selected on validation;", record.engine.text)
print("for user-0:", ", ".join(line.title or line.item for line in best))
