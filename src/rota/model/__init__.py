"""The nouns: jobs, cluster, grants, tenants, trace, record; columns and plain values."""
