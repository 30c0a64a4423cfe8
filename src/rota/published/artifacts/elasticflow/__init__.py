"""ElasticFlow as its authors' simulator carries it out."""
