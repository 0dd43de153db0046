"""The `sekai` command: one module per command.

Exit codes: 0 success, 1 failure or problems found, 2 invalid arguments or an invalid file, 130
interrupted.
"""
