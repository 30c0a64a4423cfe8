"""Reports about a run, a trace or a cluster: numbers, tables, figures and files.

finding    what a report is made of: findings, tables, bars, sections
page       and terminal, plain, table: the one way each to HTML, a terminal, JSON values, and CSV or Markdown
metrics    the registry of every number, each defined by its docstring (docs/metrics.md is printed from it)
report     the comparison of several runs as one file that opens anywhere
files      a run on disk, and back
"""
