"""What holds in a chat until it is taken back."""
