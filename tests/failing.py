"""What tests assert of an error: its class, its code, and that it says one sentence."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fedwad.errors import FedwadError


@contextmanager
def fails(
    error: type[FedwadError], code: str, *named: str
) -> Iterator[pytest.ExceptionInfo[FedwadError]]:
    """The block raises this error with this code; its message is one sentence.

    `named` are the options, columns or sites at fault, by their names, which the sentence contains.
    """
    with pytest.raises(error) as caught:
        yield caught
    assert caught.value.code == code, f"{caught.value.code}: {caught.value}"
    assert_one_sentence(str(caught.value))
    assert all(name in str(caught.value) for name in named), str(caught.value)


def assert_one_sentence(text: str) -> None:
    """The text is one line that begins with a word and ends with a full stop."""
    assert re.fullmatch(r"[^\s.][^\n]*[.?]", text), text
