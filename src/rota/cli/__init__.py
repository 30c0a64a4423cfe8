"""The command line: one module per group of verbs, over `rota.api`.

Modules here import a command's needs inside its function, so that `rota --help` loads nothing else.
"""
