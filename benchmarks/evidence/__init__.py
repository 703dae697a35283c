"""How much of what a question needs is in the whole prompt: sets of questions, their evidence, and two baselines."""
