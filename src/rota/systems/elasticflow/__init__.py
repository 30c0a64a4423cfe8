"""ElasticFlow: deadlines that are kept, by the least GPUs that keep them."""
