"""The `sekai` command: what the other stages do, from a terminal.

Exit codes: 0 if all went well, 1 if something failed or was found wanting, 2 if what was typed or a
file that was named cannot be read as asked, 130 if it was interrupted.
"""
