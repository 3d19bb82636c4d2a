"""`python -m fedwad`, the same as `fedwad`."""

from fedwad.cli import main

if __name__ == "__main__":
    main()
