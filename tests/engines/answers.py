"""Answers of deployments beside those of this process."""

import pytest

#: What differs and is no result: seconds, messages, and warnings about tables that are here.
LEFT_OUT = ("seconds", "traffic", "warnings", "notes")


def assert_same(there, here, where="answer", exact=False):
    """The same answers: to the last bit if `exact`.

    Rounds start at moments, which a server computes from columns for tables that are encoded by
    each question, and a site from encoded rows otherwise: then last digits may differ.
    """
    if isinstance(here, dict):
        assert isinstance(there, dict), where
        assert there.keys() - LEFT_OUT == here.keys() - LEFT_OUT, where
        for key in here.keys() - LEFT_OUT:
            assert_same(there[key], here[key], f"{where}/{key}", exact)
    elif isinstance(here, list):
        assert isinstance(there, list), where
        assert len(there) == len(here), where
        for k, (one, two) in enumerate(zip(there, here, strict=True)):
            assert_same(one, two, f"{where}/{k}", exact)
    elif isinstance(here, float) and not exact:
        assert there == pytest.approx(here, rel=1e-6, abs=1e-9), where
    else:
        assert there == here, where
