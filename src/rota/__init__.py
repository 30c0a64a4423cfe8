"""Rota: which deep-learning job runs on which GPUs, for how long, alone or sharing."""

__version__ = "0.1.0"
