"""Downloads, from a server on this machine: the formats, the checksums, the cache, and what is said
offline."""

import bz2
import gzip
import hashlib
import io
import re
import socket
import tarfile
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from fedwad import InputError
from paper import data
from paper.data import RemoteFile, load
from paper.tests.dataset_files import grey

pytest.importorskip("pooch", reason="the extra `paper` is not installed")
pytest.importorskip("PIL", reason="the extra `paper` is not installed")


def idx(array):
    lengths = b"".join(length.to_bytes(4, "big") for length in array.shape)
    return gzip.compress(b"\0\0\x08" + bytes([array.ndim]) + lengths + array.tobytes())


def libsvm(images, labels):
    values = np.round(images.reshape(-1, 256) / 255 * 2 - 1, 6)
    lines = [
        f"{label + 1} " + " ".join(f"{k}:{value}" for k, value in enumerate(row, 1))
        for row, label in zip(values, labels, strict=True)
    ]
    return bz2.compress("\n".join(lines).encode())


def cifar(batches):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, (images, labels) in batches.items():
            planes = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
            content = np.column_stack([labels, planes]).astype(np.uint8).tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        readme = tarfile.TarInfo("cifar-10-batches-bin/readme.html")
        readme.size = 2
        archive.addfile(readme, io.BytesIO(b"hi"))
    return packed.getvalue()


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server of files, an empty cache, and no FEDWAD_DATA."""
    files, asked = {}, []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self):
            name = self.path.lstrip("/")
            asked.append(name)
            if name not in files:
                self.send_error(404)
                return
            body = files[name]
            self.send_response(200)
            self.send_header("Content-Length", str(len(body) + (5 if "cut" in name else 0)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    for variable in ("FEDWAD_DATA", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()

    class Server:
        def __init__(self):
            self.files, self.asked, self.cache = files, asked, tmp_path / "cache" / "fedwad"
            self.place = f"http://127.0.0.1:{running.server_address[1]}/"

        def offer(self, name, contents, mirrors=None):
            """Serve these contents, by key, as a data set's only source."""
            remotes = {}
            for key, content in contents.items():
                file = f"{name}-{key}"
                files[file] = content
                sha256 = hashlib.sha256(content).hexdigest()
                remotes[key] = RemoteFile(file, mirrors or (self.place,), sha256)
            monkeypatch.setitem(data.SOURCES, name, remotes)

    yield Server()
    running.shutdown()
    thread.join()
    running.server_close()


def offer_mnist(server, name="mnist", mirrors=None):
    (x_train, y_train), (x_test, y_test) = grey(30, 28, 0), grey(10, 28, 1)
    arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
    server.offer(name, {key: idx(array) for key, array in arrays.items()}, mirrors)
    return np.concatenate([x_train, x_test]), np.concatenate([y_train, y_test])


def closed_place():
    """Where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}/"


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist", "kmnist"])
def test_idx_files(server, name):
    images, labels = offer_mnist(server, name)
    X, y = load(name, pixels="raw")
    np.testing.assert_array_equal(X.reshape(images.shape), images)
    np.testing.assert_array_equal(y, labels)


def test_usps(server):
    (train, y_train), (test, y_test) = grey(30, 16, 0), grey(10, 16, 1)
    server.offer("usps", {"train": libsvm(train, y_train), "test": libsvm(test, y_test)})
    X, y = load("usps", pixels="raw", size=16)
    np.testing.assert_array_equal(X.reshape(-1, 16, 16), np.concatenate([train, test]))
    np.testing.assert_array_equal(y, np.concatenate([y_train, y_test]))


def test_cifar(server):
    rng = np.random.default_rng(0)
    names = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]
    batches = {
        n: (rng.integers(0, 256, (4, 32, 32, 3), dtype=np.uint8), rng.integers(0, 10, 4))
        for n in names
    }
    shuffled = {
        name: batches[name] for name in sorted(names, reverse=True)
    }  # members come in any order
    server.offer("cifar10", {"all": cifar(shuffled)})
    X, y = load("cifar10", pixels="raw")
    np.testing.assert_array_equal(
        X.reshape(-1, 32, 32, 3), np.concatenate([images for images, _ in batches.values()])
    )
    np.testing.assert_array_equal(y, np.concatenate([labels for _, labels in batches.values()]))
    assert len(load("cifar10", "test")[0]) == 4


def test_only_what_is_needed_is_downloaded_and_only_once(server):
    offer_mnist(server)
    first, _ = load("mnist", "test", samples=5)
    assert sorted(server.asked) == ["mnist-x_test", "mnist-y_test"]
    again, _ = load("mnist", "test", samples=5)
    assert len(server.asked) == 2
    np.testing.assert_array_equal(first, again)


def test_the_cache_serves_offline(server):
    offer_mnist(server)
    X, _ = load("mnist")
    server.files.clear()
    np.testing.assert_array_equal(load("mnist")[0], X)


def test_a_damaged_file_in_the_cache_is_downloaded_again(server):
    offer_mnist(server)
    X, _ = load("mnist", "test")
    (server.cache / "mnist" / "mnist-x_test").write_bytes(b"damaged")
    np.testing.assert_array_equal(load("mnist", "test")[0], X)
    assert server.asked.count("mnist-x_test") == 2


def test_the_next_place_is_tried(server):
    images, _ = offer_mnist(
        server, mirrors=(closed_place(), server.place + "missing/", server.place)
    )
    X, _ = load("mnist", pixels="raw")
    np.testing.assert_array_equal(X.reshape(images.shape), images)


def sentence(name):
    with pytest.raises(InputError) as caught:
        load(name)
    said = str(caught.value)
    assert "\n" not in said
    assert said.endswith(".")
    return said


def test_offline(server):
    offer_mnist(server, mirrors=(closed_place(), closed_place()))
    said = sentence("mnist")
    assert (
        "mnist is not on this machine and cannot be downloaded (no answer from 127.0.0.1)" in said
    )
    assert "set FEDWAD_DATA to a folder that has mnist.npz" in said
    assert not list(server.cache.rglob("*mnist-*"))


def test_a_server_without_the_file(server):
    offer_mnist(server)
    server.files.clear()
    assert "(127.0.0.1 answered 404)" in sentence("mnist")


def test_another_checksum(server):
    offer_mnist(server)
    server.files["mnist-y_train"] += b"!"
    assert "127.0.0.1 sent something else than the published file" in sentence("mnist")
    assert not (server.cache / "mnist" / "mnist-y_train").exists()


def test_a_download_that_breaks_off(server):
    offer_mnist(server)
    server.files["cut/mnist-y_train"] = server.files["mnist-y_train"]
    offer_mnist(server, mirrors=(server.place + "cut/",))
    assert "cannot be downloaded" in sentence("mnist")
    assert not server.cache.exists()


def test_a_cache_that_cannot_be_written(server):
    offer_mnist(server)
    server.cache.parent.mkdir()
    server.cache.write_text("a file where the folder would be")
    said = sentence("mnist")
    assert f"The cache {server.cache / 'mnist'} cannot be written" in said


def test_a_file_with_the_right_checksum_and_the_wrong_format(server):
    server.offer(
        "mnist",
        dict.fromkeys(("x_train", "y_train", "x_test", "y_test"), gzip.compress(b"\0\0\x0d\x01")),
    )
    assert "cannot be read as mnist" in sentence("mnist")


def test_the_folder_comes_before_the_cache(server, folder):
    offer_mnist(server)
    assert len(load("mnist")[0]) == len(folder.pixels["mnist"])
    assert not server.asked


def test_an_empty_variable_is_an_unset_one(server, monkeypatch):
    monkeypatch.setenv("FEDWAD_DATA", "")
    offer_mnist(server)
    assert len(load("mnist")[0]) == 40


def test_the_table_of_sources_is_complete():
    assert set(data.SOURCES) == {"mnist", "fashion_mnist", "kmnist", "usps", "cifar10"}
    sums = [remote.sha256 for remotes in data.SOURCES.values() for remote in remotes.values()]
    assert all(re.fullmatch("[0-9a-f]{64}", sha256) for sha256 in sums)
    assert len(set(sums)) == len(sums) == 15
    for remotes in data.SOURCES.values():
        for remote in remotes.values():
            assert all(re.fullmatch(r"https?://[\w./~-]+/", place) for place in remote.mirrors)
