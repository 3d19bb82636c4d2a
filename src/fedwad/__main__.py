"""`python -m fedwad`, the same as `fedwad`."""

from fedwad_command import run

if __name__ == "__main__":
    run()
