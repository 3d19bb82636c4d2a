"""`python -m fedwad`, the same as `fedwad`."""

from fedwad_command import main

if __name__ == "__main__":
    main()
