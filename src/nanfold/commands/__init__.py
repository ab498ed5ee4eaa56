"""The commands of the command line, one a file.

A command is a module of this package whose name stands in `NAMES`, in the order of ``nanfold --help``. The first line
of its docstring is its help; ``configure(parser)`` adds its options to an argparse parser; ``run(args)`` does the work
and returns the exit code. Every module here is imported for the help, so what is heavy is imported inside ``run``.

What a command cannot do with what it was given it says by raising ValueError or OSError with one sentence.
"""

NAMES = ("demo", "inspect", "embed", "impute", "datasets", "reproduce", "bench")
