"""What pytest leaves alone here: settings and tools of Sphinx, and pages that ``make docs`` makes (``tests/docs`` tries them)."""

collect_ignore = ["conf.py", "builder", "generated"]
