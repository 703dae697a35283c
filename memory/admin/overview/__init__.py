"""The overview page of the admin: workload, totals and charts."""
