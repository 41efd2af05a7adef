"""The stages, one file per kind: which input a stage takes, and how it handles the outcome of a call.

Everything runs under the engine's lock unless it says otherwise.
"""
