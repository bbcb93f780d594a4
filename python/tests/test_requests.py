"""Readers: every format as columns, for NumPy and for Arrow."""

import os
import struct
import threading

import nitro_lab as nl
import pytest
from conftest import REQUESTS, SAMPLES

MD5 = "2c4787c7671c2f638777c4ab72859ce1"
BLKPARSE = """\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kworker/3:1 x]
  8,0    3        5     1.000005023   697  Q  DS 64 + 128 [fstrim]
"""
FIO = """\
fio version 3 iolog
25 /dev/sdb add
162 /dev/sdb read 0 4096
200500 /dev/sdb datasync 45056 8192
"""


def blktrace(action, sector, length):
    return struct.pack("<IIQQIIIIIHH", 0x65617407, 1, 77, sector, length, action, 42, 8 << 20 | 1, 0, 0, 0)


def vscsi(number):
    return struct.pack("<HBBIIIQQQ", 0x28, 0, 2, 7, 4096, 1, number, 1000 + number, 5)


#: A few records in each format, and the requests that they are: time in ns, operation, offset, length.
FORMATS = {
    "alibaba": ("3,R,126703644672,4096,1577808000000626\n", [(1577808000000626000, "read", 126703644672, 4096)]),
    "blkparse": (BLKPARSE, [(0, "write", 223490 * 512, 4096), (1000005023, "trim", 64 * 512, 65536)]),
    "blktrace": (blktrace(1 << 16 | 1, 10, 4096) + blktrace(1 << 17 | 1, 20, 512), [(77, "read", 5120, 4096), (77, "write", 10240, 512)]),
    "disksim": ("1.5 0 8 16 1\n2.0 3 9 1 0\n", [(1500000, "read", 8 * 512, 8192), (2000000, "write", 9 * 512, 512)]),
    "fio": (FIO, [(162000, "read", 0, 4096), (200500000, "flush", 0, 0)]),
    "fiu": (f"89 4257 my (own) process 8 8 R 6 1 {MD5}\n", [(89, "read", 4096, 4096)]),
    "msr": ("128166372003061629,hm,0,Read,383496192,32768,413\n", [(None, "read", 383496192, 32768)]),
    "oracle-general": (struct.pack("<IQIq", 5, 7, 100, -1) * 3, [(5000000000, "read", None, 100)] * 3),
    "spc": ("0,303567,3584,w,0.026214\n", [(26214000, "write", 303567 * 512, 3584)]),
    "systor": ("Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.1,R,3,0,512\n", [(1500000000, "read", 0, 512)]),
    "vscsi": (vscsi(0) + vscsi(1) + vscsi(2), [(1000000, "read", 0, 4096), (1001000, "read", 512, 4096), (1002000, "read", 1024, 4096)]),
}


def written(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_is_recognised_and_read(name, tmp_path):
    numpy = pytest.importorskip("numpy")
    content, expected = FORMATS[name]
    requests = nl.read(written(tmp_path / "trace", content))
    assert len(requests) == len(expected)
    columns = requests.numpy()
    for row, (time, op, offset, length) in enumerate(expected):
        assert requests.OPERATIONS[columns["op"][row]] == op
        assert columns["length"][row] == length
        assert time is None or columns["time"][row] == time
        assert offset is None or columns["offset"][row] == offset
    assert columns["time"].dtype == numpy.int64 and columns["op"].dtype == numpy.uint8


def test_fingerprints_are_those_of_their_requests(tmp_path):
    pytest.importorskip("numpy")
    text = f"89 4257 x 8 8 R 6 1 {MD5}\n90 4257 x 16 8 W 6 1 {MD5[::-1]}\n"
    columns = nl.read(written(tmp_path / "trace", text)).numpy()
    assert list(columns["fingerprint_start"]) == [0, 1, 2]
    assert columns["fingerprint"].shape == (2, 20)
    assert bytes(columns["fingerprint"][0])[:16].hex() == MD5
    assert bytes(columns["fingerprint"][1])[:16].hex() == MD5[::-1]
    assert list(columns["block"]) == [4096, 4096]


def test_columns_that_the_user_describes(tmp_path):
    pytest.importorskip("numpy")
    path = written(tmp_path / "mine.csv", "1,x,R,3\n2,x,W,4\n")
    columns = nl.read(path, columns="time=0:ms,op=2,offset=3:sectors").numpy()
    assert list(columns["time"]) == [1000000, 2000000] and list(columns["offset"]) == [3 * 512, 4 * 512]
    again = nl.read(nl.Trace(path, columns="time=0:ms,op=2,offset=3:sectors")).numpy()
    assert list(again["offset"]) == list(columns["offset"])


def test_batches_have_all_requests_once(trace):
    numpy = pytest.importorskip("numpy")
    whole = nl.read(trace)
    assert len(whole) == REQUESTS and repr(whole) == f"<{REQUESTS} requests>"
    batches = list(nl.batches(trace, rows=7000))
    assert [len(batch) for batch in batches] == [7000, 7000, 7000, 7000, 2000]
    for name in ("time", "op", "offset", "length"):
        joined = numpy.concatenate([batch.numpy()[name] for batch in batches])
        assert (joined == whole.numpy()[name]).all(), name
    # A number of rows that divides the requests: no empty batch at the end.
    assert [len(batch) for batch in nl.batches(trace, rows=REQUESTS)] == [REQUESTS]


def test_several_traces_are_merged_by_time(tmp_path):
    pytest.importorskip("numpy")
    one = written(tmp_path / "one", "1,R,0,512,10\n1,R,512,512,30\n")
    two = written(tmp_path / "two", "2,R,1024,512,20\n2,R,2048,512,40\n")
    columns = nl.read([one, two]).numpy()
    assert list(columns["offset"]) == [0, 1024, 512, 2048]
    assert len(set(columns["object"])) == 2


def test_bad_records_are_errors_or_are_counted(tmp_path):
    path = written(tmp_path / "trace.csv", "1,R,0,512,1\n1,R,0,512,2\n1,R,zero,512,3\n1,W,0,512,4\n")
    with pytest.raises(ValueError, match=r"trace\.csv:3: offset: not a number"):
        nl.read(path)
    requests = nl.read(path, bad_records="skip")
    assert (len(requests), requests.skipped) == (3, 1)
    assert sum(batch.skipped for batch in nl.batches(path, rows=10, bad_records="skip")) == 1


def test_a_trace_without_requests_has_no_rows(without_requests):
    pytest.importorskip("numpy")
    requests = nl.read(without_requests)
    columns = requests.numpy()
    assert len(requests) == 0 and columns["fingerprint"].shape == (0, 20) and list(columns["fingerprint_start"]) == [0]
    assert list(nl.batches(without_requests)) == []


def test_arrow_has_the_columns_of_parquet_files(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    pytest.importorskip("numpy")
    text = f"89 4257 x 8 8 R 6 1 {MD5}\n90 4257 x 16 8 W 6 1 {MD5}\n"
    with_prints = nl.read(written(tmp_path / "prints", text))
    table = with_prints.arrow()
    assert table.schema.names == ["time", "op", "object", "offset", "length", "fingerprint", "block", "compressed", "class"]
    assert table["op"].to_pylist() == ["read", "write"] and table["compressed"].to_pylist() == [None, None]
    assert table["fingerprint"][0].as_py()[:16].hex() == MD5
    table.validate(full=True)
    parquet.write_table(table, tmp_path / "again.parquet", compression="zstd")
    again = nl.read(tmp_path / "again.parquet").arrow()
    assert again.equals(table)
    assert arrow.table(with_prints).equals(table), "by the C data interface"


@pytest.mark.parametrize("which", ["trace", "without_requests"])
def test_parquet_of_requests_without_fingerprints(which, request, tmp_path):
    pytest.importorskip("numpy")
    parquet = pytest.importorskip("pyarrow.parquet")
    requests = nl.read(request.getfixturevalue(which))
    parquet.write_table(requests.arrow(), tmp_path / "again.parquet", compression="zstd")
    again = nl.read(tmp_path / "again.parquet")
    assert len(again) == len(requests) and again.arrow().equals(requests.arrow())


@pytest.mark.parametrize(
    ("name", "requests", "writes"),
    [
        ("fiu/homes-sample.blkparse", 1000, 1000),
        ("fiu/smalltrace.tsv", 10000, 1095),
        ("cloudphysics/cloudPhysicsIO.csv", 113872, 66898),
        ("cloudphysics/cloudPhysicsIO.vscsi", 113872, 66898),
        ("cloudphysics/cloudPhysicsIO.oracleGeneral.bin", 113872, 0),
        ("msr/msr-cambridge1-sample.csv", 1000, 492),
        ("systor/systor17-traces-sample.csv.gz", 999, 173),
        ("tencent/cloud_storage-sample.bz2", 50000, 25479),
        ("arc/P3.lis.zst", 238578, 0),
        ("disksim/DTRS1K.trace.zst", 127043, 13920),
    ],
)
def test_samples_are_read_to_their_last_record(name, requests, writes):
    pytest.importorskip("numpy")
    path = os.path.join(SAMPLES, name)
    if not os.path.exists(path):
        pytest.skip(f"no {path}")
    read = nl.read(path)
    assert (len(read), int((read.numpy()["op"] == nl.Requests.OPERATIONS.index("write")).sum())) == (requests, writes)


def test_the_interpreter_runs_on_while_a_trace_is_read(tmp_path):
    """The writer of the pipe is a thread of the same interpreter: neither could end if the reader held its lock."""
    os.mkfifo(tmp_path / "pipe")

    def write():
        with open(tmp_path / "pipe", "w") as pipe:
            for number in range(20000):
                pipe.write(f"1,R,{512 * number},512,{number}\n")

    writer = threading.Thread(target=write)
    writer.start()
    requests = nl.read(tmp_path / "pipe")
    writer.join()
    assert len(requests) == 20000
