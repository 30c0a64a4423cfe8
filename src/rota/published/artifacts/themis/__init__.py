"""Themis as the ElasticFlow repository has it."""
