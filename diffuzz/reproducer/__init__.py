"""Standalone reproducers: one Python file that shows a finding with torch and triton alone.

:mod:`.script` is the file's own code, :mod:`.bundle` the part of diffuzz it carries, :mod:`.pack`
its data; :mod:`.build` puts them together and checks the result against diffuzz's own verdict. A
reproducer holds vLLM's source of the user's revision: it is the user's file.
"""

from diffuzz.reproducer.build import Reproducer, Subject, build

__all__ = ["Reproducer", "Subject", "build"]
