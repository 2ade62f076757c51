"""The command `headroom` of the wheel: replaces itself by the program in this package."""
import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "headroom")
    try:
        os.execv(program, ["headroom", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"headroom: cannot start {program} ({error.strerror}): install headroom-memory's wheel again, or put "
                 "the program's folder on PATH")


if __name__ == "__main__":
    main()
