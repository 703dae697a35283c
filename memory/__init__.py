"""What the model is sent: prompts are planned, older turns folded into a summary, earlier ones found."""
