"""ElasticFlow: promised deadlines, kept with as few GPUs as possible."""
