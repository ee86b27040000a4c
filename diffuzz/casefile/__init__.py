"""Case and finding files: YAML that a person can read and edit, read strictly.

``replay``, ``shrink``, ``bisect`` and the corpus take the same files. :mod:`.nodes` reads the part
of YAML that is used here, with bounds and with the line of everything; :mod:`.fields` knows the
fields, their types and the schemas; :mod:`.files` is what the rest of diffuzz calls.
"""

from diffuzz.casefile.fields import SCHEMA, Statement
from diffuzz.casefile.files import CaseFile, read_case_file, render, write_case_file

__all__ = ["SCHEMA", "CaseFile", "Statement", "read_case_file", "render", "write_case_file"]
