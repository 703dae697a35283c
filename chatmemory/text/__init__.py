"""Text as data: tokens, markers, entities, links, and what may hide in them. Pure."""
