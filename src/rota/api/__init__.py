"""The Python API of simulation; the command line calls nothing else.

    import rota
    result = rota.simulate("trace.csv", cluster="80x8:V100", policies=["tiresias", "srtf", "fifo"])
    result.report("out/")

simulation   `rota.simulate`: replay a trace under several policies
run_options  its options, each declared once
results      what it returns: records, summaries, comparison, files
moments      `rota.snapshot`, `rota.replay`: one moment of a run, kept in a file and decided again
analysis     `analyze`: what a trace says about the cluster that made it

`rota/__init__.py` loads names when they are first used; reading the options does not load the simulator.
"""
