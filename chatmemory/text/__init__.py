"""Text as data: tokens, markers, entities, links, and hidden or hostile content. Pure."""
