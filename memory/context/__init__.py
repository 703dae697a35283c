"""The prompt of a reply: planned within its budget, rendered, recorded and built again."""
