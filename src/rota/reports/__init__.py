"""What a run says: numbers, tables, figures and files, all drawn from a `Record` and nothing else.

metrics      the registry of every number, each defined by its docstring (docs/metrics.md is printed from it)
summary      all numbers of one run, per tenant and per size, and their spread over seeds
compare      several runs beside each other: ratios against a baseline, the best, the calibration
series       step functions: utilisation, queue length, occupancy of nodes
table        the comparison in a terminal
html         the comparison as one file that opens anywhere
files        a run on disk, and back
"""
