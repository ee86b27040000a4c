"""``python -m diffuzz`` and the ``diffuzz`` command."""

from __future__ import annotations

from diffuzz.cli import main

if __name__ == "__main__":
    main()
