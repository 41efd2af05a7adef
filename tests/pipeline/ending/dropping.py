"""How the scripts begin that drop pipelines."""

__all__ = ["START"]

#: Makes pipelines that print when their source is closed, and looks for threads that are left.
START = """
from tests.support.in_child import *
from spdl.pipeline import PipelineBuilder
import asyncio, gc, sys, threading, weakref

def endless():
    number = 0
    while True:
        yield number
        number += 1

def closing(iterator):
    try:
        yield from iterator
    finally:
        print("closed")

def build(source=None):
    source = closing(endless()) if source is None else source
    return PipelineBuilder().add_source(source).pipe(str).pipe(str).add_sink().build(num_threads=2)

def others():
    return [thread for thread in threading.enumerate() if thread is not threading.current_thread()]

def join_others():
    while threads := others():  # one of them may start another as it ends
        for thread in threads:
            thread.join()
"""
