"""How fast differences of logits can grow: sound bounds for every input."""
