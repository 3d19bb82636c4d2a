"""What a server at a port of this machine answers."""

import urllib.error
import urllib.request


def get(port, page):
    """The status and the text of a page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
