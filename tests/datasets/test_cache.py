"""Downloads from a server on this machine: whole or not at all, whatever happens on the way."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from nanfold.datasets import cache as caches
from nanfold.datasets.cache import Cache, Source
from nanfold.datasets.dataset import Dataset

CONTENT = bytes(range(256)) * 4000


class Server(ThreadingHTTPServer):
    """Answers with what stands in `script`, one entry a request, and then with the whole file."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script = []
        self.content = CONTENT
        self.ranges = True
        self.asked = []

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/data.bin"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.server.asked.append(wanted)
        step = self.server.script.pop(0) if self.server.script else "whole"
        if isinstance(step, int):
            self.send_error(step)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.server.ranges else 0
        content = self.server.content[start:]
        self.send_response(206 if start else 200)
        if step != "unknown length":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if step == "half" else content)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def waits():
    return []


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


def left_in(cache):
    return sorted(path.name for path in cache.path.rglob("*") if path.is_file())


def test_it_comes_whole_and_only_once(server, cache, waits):
    seen = []
    path = cache.fetch(Source("data.bin", server.url), lambda *step: seen.append(step), waits.append)
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert cache.fetch(Source("data.bin", server.url)) == path
    assert server.asked == [None]
    assert not waits


def test_without_a_length(server, cache):
    server.script = ["unknown length"]
    seen = []
    path = cache.fetch(Source("data.bin", server.url), lambda *step: seen.append(step))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("data.bin", len(CONTENT), None)


@pytest.mark.parametrize("ranges", [True, False])
def test_it_carries_on_where_it_broke_off(server, cache, waits, ranges):
    server.ranges = ranges
    server.script = ["half", 503, "half"]
    path = cache.fetch(Source("data.bin", server.url), wait=waits.append)
    assert path.read_bytes() == CONTENT
    half = len(CONTENT) // 2
    assert server.asked[:3] == [None, f"bytes={half}-", f"bytes={half}-"]
    assert server.asked[3] == (f"bytes={half + half // 2}-" if ranges else f"bytes={half}-")
    assert waits == [1.0, 2.0, 4.0]


def test_a_truncated_download_leaves_nothing(server, cache, waits):
    server.script = ["half"] * 4
    server.ranges = False
    with pytest.raises(ValueError, match=r"4 attempts, the last of which ended with: .*512000") as found:
        cache.fetch(Source("data.bin", server.url), wait=waits.append)
    assert "\n" not in str(found.value)
    assert left_in(cache) == []


def test_a_server_that_fails(server, cache, waits):
    server.script = [500] * 4
    with pytest.raises(ValueError, match="4 attempts, the last of which ended with: the server answered 500"):
        cache.fetch(Source("data.bin", server.url), wait=waits.append)
    assert len(waits) == 3
    assert left_in(cache) == []


def test_not_found_is_not_asked_again(server, cache, waits):
    server.script = [404]
    with pytest.raises(ValueError, match=r"data\.bin cannot be downloaded: the server answered 404 Not Found\."):
        cache.fetch(Source("data.bin", server.url), wait=waits.append)
    assert server.asked == [None]
    assert left_in(cache) == []


def test_no_server(server, cache, waits):
    url = server.url
    server.server_close()
    with pytest.raises(ValueError, match="4 attempts"):
        cache.fetch(Source("data.bin", url.replace(str(server.server_port), "9")), wait=waits.append)
    assert left_in(cache) == []


def test_a_known_checksum(server, cache):
    good = Source("data.bin", server.url, hashlib.sha256(CONTENT).hexdigest())
    assert cache.fetch(good).read_bytes() == CONTENT
    assert left_in(cache) == ["data.bin"]


def test_a_wrong_checksum_leaves_nothing(server, cache):
    with pytest.raises(ValueError, match=r"has the SHA-256 [0-9a-f]{64} where 00 was expected") as found:
        cache.fetch(Source("data.bin", server.url, "00"))
    assert "\n" not in str(found.value)
    assert left_in(cache) == []


def test_an_unknown_checksum_is_that_of_the_first_download(server, cache):
    source = Source("data.bin", server.url)
    cache.fetch(source)
    assert left_in(cache) == ["data.bin", "data.bin.sha256"]
    (cache.raw / "data.bin").unlink()
    assert cache.fetch(source).is_file()
    (cache.raw / "data.bin").unlink()
    server.content = CONTENT[::-1]
    with pytest.raises(ValueError, match=r"If the change is meant, delete .*data\.bin\.sha256"):
        cache.fetch(source)
    assert left_in(cache) == ["data.bin.sha256"]


def test_a_full_disk_leaves_nothing(server, cache, waits):
    cache.raw.mkdir(parents=True)
    (cache.raw / ".data.bin.part").symlink_to("/dev/full")
    with pytest.raises(ValueError, match=r"Cannot write .*data\.bin: No space left on device\. Make room") as found:
        cache.fetch(Source("data.bin", server.url), wait=waits.append)
    assert "\n" not in str(found.value)
    assert list(cache.raw.iterdir()) == []
    assert not waits


def test_what_a_killed_run_has_left_is_not_carried_on(server, cache):
    cache.raw.mkdir(parents=True)
    (cache.raw / ".data.bin.part").write_bytes(b"of another version")
    assert cache.fetch(Source("data.bin", server.url)).read_bytes() == CONTENT
    assert server.asked == [None]


def test_a_file_that_comes_by_hand(cache):
    with pytest.raises(ValueError, match="cannot be downloaded; put it into"):
        cache.fetch(Source("koh_tpm.csv"))


def some_set(name="mini"):
    return Dataset(
        name, np.eye(4)[:, :3] + 1, np.array(list("aabb")), "linear", np.array(["x", "y", "z"]), None, ("why",)
    )


def test_sets_are_kept(cache):
    assert cache.kept("mini") is None
    cache.keep(some_set())
    data = cache.kept("mini")
    assert np.array_equal(data.X, some_set().X)
    assert data.labels.tolist() == list("aabb")
    assert (data.values, data.features.tolist(), data.samples, data.notes) == (
        "linear",
        ["x", "y", "z"],
        None,
        ("why",),
    )
    assert left_in(cache) == ["mini.npz"]


def test_a_damaged_set(cache):
    cache.keep(some_set())
    path = cache.path / "mini.npz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"mini\.npz in the cache is damaged; delete it"):
        cache.kept("mini")


def test_no_room_for_a_set(cache, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(ValueError, match=r"Cannot write .*mini\.npz: No space left on device"):
        cache.keep(some_set())
    assert left_in(cache) == []


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("NANFOLD_CACHE", raising=False)
    assert Cache().path == tmp_path / "xdg" / "nanfold"
    monkeypatch.setenv("NANFOLD_CACHE", str(tmp_path / "named"))
    assert Cache().path == tmp_path / "named"


def test_the_bar(monkeypatch, capsys):
    caches.draw_bar("data.bin", 5, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    caches.draw_bar("data.bin", 5_000_000, 10_000_000)
    caches.draw_bar("data.bin", 10_000_000, 10_000_000)
    caches.draw_bar("data.bin", 5_000_000, None)
    shown = capsys.readouterr().err
    assert f"data.bin [{'#' * 15}{'.' * 15}] 5.0 of 10.0 MB\r" in shown
    assert "10.0 of 10.0 MB\n" in shown
    # Whatever is said after a download that broke off is written over its bar.
    assert shown.endswith("5.0 MB\r")


@pytest.mark.parametrize("columns", [70, 80, 200])
def test_the_bar_stays_on_one_line_of_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    caches.draw_bar("GSE67310_iN_data_log2FPKM_annotated.txt.gz", 12_300_000, 145_600_000)
    line = capsys.readouterr().err.removesuffix("\r")
    assert len(line) < max(columns, 72)
    assert line.endswith("] 12.3 of 145.6 MB")
