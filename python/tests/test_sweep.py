"""Sweeps: the same results on every executor as one after the other."""

import os
import pickle
import signal
import sys
import types
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import nitro_lab as nl
import pytest

POLICIES, SIZES = ["weu", "s3-fifo", "lru"], ["4M", "8M"]


@pytest.fixture(scope="module")
def expected(trace):
    """One after the other, without anything that a sweep does."""
    results = []
    for policy in POLICIES:
        for size in SIZES:
            results.append({**nl.simulate(trace, policy, size), "point": {"policy": policy, "size": size}})
    return results


def test_threads_of_this_process(trace, expected):
    assert nl.sweep(trace, POLICIES, SIZES) == expected


def test_an_executor_of_threads(trace, expected):
    with ThreadPoolExecutor(3) as threads:
        assert nl.sweep(trace, POLICIES, SIZES, executor=threads) == expected


def test_processes(trace, expected):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        assert nl.sweep(nl.Trace(trace, trace_format="alibaba"), POLICIES, SIZES, executor=processes) == expected


def test_a_pool_of_multiprocessing(trace, expected):
    with get_context("spawn").Pool(2) as pool:
        assert nl.sweep(trace, POLICIES, SIZES, executor=pool) == expected


def test_processes_that_are_forked_share_nothing_that_is_kept(trace, expected):
    assert nl._sweep._task((nl.Trace(trace), {"variant": "weu", "cache_size": "4M"}))["reads"] == expected[0]["reads"]
    with get_context("fork").Pool(2) as pool:
        assert nl.sweep(trace, POLICIES, SIZES, executor=pool) == expected


def test_dask(trace, expected):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert nl.sweep(trace, POLICIES, SIZES, executor=client) == expected
            with pytest.raises(ValueError, match="no such setting"):
                nl.sweep(trace, POLICIES, SIZES, executor=client, colour="red")


def test_ray(trace, expected):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        assert nl.sweep(trace, POLICIES, SIZES, executor=ray) == expected
    finally:
        ray.shutdown()


def test_a_module_with_rays_interface(trace, expected):
    """What `sweep` uses of Ray, so that a change here is seen where Ray is not installed."""
    module = types.ModuleType("like_ray")
    module.remote = lambda function: types.SimpleNamespace(remote=lambda task: (function, task))
    module.get = lambda references: [function(task) for function, task in references]
    assert nl.sweep(trace, POLICIES, SIZES, executor=module) == expected


def test_all_settings_may_be_lists(trace):
    results = nl.sweep(trace, size="8M", ram=[0, "1M"], admission=["all", "probation"])
    points = [result["point"] for result in results]
    assert points == [
        {"ram": 0, "admission": "all"},
        {"ram": 0, "admission": "probation"},
        {"ram": "1M", "admission": "all"},
        {"ram": "1M", "admission": "probation"},
    ]
    assert results[3] == {**nl.simulate(trace, size="8M", ram="1M", admission="probation"), "point": points[3]}


def test_a_trace_that_changes_is_read_anew(trace, tmp_path):
    path = tmp_path / "changing.csv"
    with open(trace) as file:
        lines = file.readlines()
    path.write_text("".join(lines[:10000]))
    task = (nl.Trace(path), {"variant": "lru", "cache_size": "8M"})
    first = nl._sweep._task(task)
    assert first == nl._sweep._task(task) == nl.simulate(path, "lru", "8M")
    path.write_text("".join(lines))
    assert nl._sweep._task(task) == nl.simulate(path, "lru", "8M") != first


def test_the_first_exception_is_raised(trace):
    with pytest.raises(ValueError, match="lur.*s3-fifo"):
        nl.sweep(trace, ["lru", "lur"], SIZES)
    with pytest.raises(ValueError, match="size has no values"):
        nl.sweep(trace, "lru", [])
    with pytest.raises(TypeError, match="a dask.distributed.Client, the module ray"):
        nl.sweep(trace, "lru", SIZES, executor=3)


def test_functions_of_the_user_run_on_the_same_executors():
    assert nl.run_all(str, range(5)) == ["0", "1", "2", "3", "4"]
    assert nl.run_all(str, []) == []


def test_traces_can_be_sent(trace):
    named = nl.Trace(trace, trace_format="alibaba")
    again = pickle.loads(pickle.dumps(named))
    assert again == named and hash(again) == hash(named) and repr(again) == repr(named)
    assert os.path.isabs(again.paths[0])
    assert named != nl.Trace(trace)


class Alarm(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_a_signal_ends_a_simulation(trace):
    """As Ctrl-C does: the handler's exception comes out of the call. The work would take hours."""

    def handler(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Alarm):
            for _ in range(sys.maxsize):
                nl.simulate(trace, "weu", "8M")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
