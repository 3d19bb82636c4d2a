"""`python -m fedwad`, the same as `fedwad`."""

from fedwad.cli import main

main()
