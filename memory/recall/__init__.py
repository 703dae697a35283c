"""Earlier turns that a question is about: indexed, searched, ranked and quoted."""
