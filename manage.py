#!/usr/bin/env python
"""Django's command line for chatmemory."""

from chatmemory.__main__ import main

if __name__ == "__main__":
    main()
