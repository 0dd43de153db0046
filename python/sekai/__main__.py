"""The same as the `sekai` command, for `python -m sekai`."""

from sekai.cli.command import main

if __name__ == "__main__":
    raise SystemExit(main())
