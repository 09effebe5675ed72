"""What the diff test runs: for each upstream file, inputs that are hard, and what must come out.

A case is a generator of checks; a check has inputs, how to call upstream's kernel, and a float64
reference with a budget for each element. Everything here runs in the child process.
"""
