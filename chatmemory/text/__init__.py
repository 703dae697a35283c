"""Text as data: tokens, markers, spans, links, and hidden or hostile content. Pure."""
