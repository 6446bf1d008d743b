# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, and what callbacks raise, end a call that is under way and come out of it."""
import asyncio
import contextlib
import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import field, onnx_model, unix_alone, value_info, varint
from test_queue import ONES, slow_session

import quarry
from quarry import interrupts

PROMISED, LATEST = 0.05, 0.2 if os.name != "nt" else 1.0  # wine has it from elsewhere
"""Seconds from Ctrl-C to the exception: what is promised, and what a machine gets that others use too. The best of a few tries counts."""


@contextlib.contextmanager
def ctrl_c(after):
    """Sends SIGINT as a terminal does, to the process; gives a list that has when."""
    sent, gone = [], threading.Event()

    def send():
        if not gone.wait(after):
            sent.append(time.monotonic())
            if os.name == "nt":  # on a thread of its own, as a console does
                signal.raise_signal(signal.SIGINT)
            else:
                os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        gone.set()
        thread.join()


def took(call, after=0.1, tries=5):
    """How long after Ctrl-C a call raises KeyboardInterrupt."""
    best = None
    for _ in range(tries):
        with ctrl_c(after) as sent:
            with pytest.raises(KeyboardInterrupt):
                call()
            ended = time.monotonic()
        best = min(ended - sent[0], best or 99)
        if best < PROMISED / 2:
            break
    return best


SIDE = 2500
BIG = np.ones((SIDE, SIDE), np.float32)


def long_session(**options):
    """A run of seconds."""
    shape = [SIDE, SIDE]
    return quarry.Session(onnx_model("MatMul", [("a", 1, shape), ("b", 1, shape)], [("c", 1, shape)]), backend="cpu-reference", threads=1, **options)


def tensor(name, array):
    return b"".join(b"\x08" + varint(d) for d in array.shape) + b"\x10\x01" + field(8, name.encode()) + field(9, array.astype("<f4").tobytes())


def slow_to_compile():
    """Many products of constants, which are folded one by one when it is compiled: some seconds."""
    side, depth = 160, 1500
    nodes = b"".join(field(1, field(1, f"k{i}".encode()) + field(1, b"w") + field(2, f"k{i + 1}".encode()) + field(4, b"MatMul")) for i in range(depth))
    last = field(1, field(1, b"x") + field(1, f"k{depth}".encode()) + field(2, b"y") + field(4, b"Add"))
    weight = np.full((side, side), 1 / side, np.float32)
    graph = nodes + last + field(2, b"g") + field(5, tensor("w", weight)) + field(5, tensor("k0", weight))
    graph += field(11, value_info("x", 1, [side, side])) + field(12, value_info("y", 1, [side, side]))
    return b"\x08\x0a" + field(7, graph) + field(8, b"\x10" + varint(21))


def test_ctrl_c_ends_a_run_and_the_session_goes_on():
    session, small = long_session(), slow_session()
    profile, stop = quarry.Profile(), quarry.Signal()
    for call in (lambda: session.run([BIG, BIG]), lambda: session.run([BIG, BIG], profile=profile), lambda: session.run([BIG, BIG], signal=stop),
                 lambda: session.run([BIG, BIG], timeout=600), lambda: session([BIG][0], BIG), session.warm_up):
        assert took(call) < LATEST
    assert small.run([ONES, ONES])[0][0, 0] == len(ONES)
    # At once after the exception, when the thread that listens may not have heard of it yet: no later call is hit.
    for _ in range(20):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
            small.run([ONES, ONES])
        assert small.run([ONES, ONES])[0][0, 0] == len(ONES)
    assert not interrupts._active and not stop._followers
    with pytest.raises(quarry.DeadlineExceeded):
        session.run([BIG, BIG], timeout=0.05)


def test_a_run_that_is_expected_to_be_quick_is_not(digits):
    session, small = long_session(), slow_session()
    session._quick = small._quick = True  # as after a run that was
    assert small.run([ONES, ONES])[0][3, 4] == len(ONES) and not small._quick

    def run():
        session._quick = True
        session.run([BIG, BIG])

    assert took(run) < LATEST
    quick = quarry.Session(digits.model, threads=1)
    for _ in range(3):
        quick.run(digits.images[0])
    assert quick._quick
    for wrong in (digits.images[0].astype(np.float64), digits.images[0][0]):
        with pytest.raises(quarry.InvalidArgument):
            quick.run(wrong)
    # What hit a callback of a run that nobody watches comes out of it.
    quick.run(digits.images[0])
    assert interrupts.caught(KeyboardInterrupt, KeyboardInterrupt("late"), None)
    with pytest.raises(KeyboardInterrupt, match="late"):
        quick.run(digits.images[0])
    quick.run(digits.images[0])


def test_ctrl_c_ends_the_waiting_and_not_the_run():
    session = long_session()
    run = session.submit([BIG, BIG])
    assert took(run.wait) < LATEST
    assert took(lambda: run.wait(timeout=600)) < LATEST
    assert not run.done and session._kept
    run.abort()
    with pytest.raises(quarry.Cancelled):
        run.wait()
    assert not session._kept


def test_ctrl_c_ends_what_compiles(tmp_path):
    model = quarry.Model(slow_to_compile())
    for call in (lambda: model.compile(tmp_path / "a.qrm"), lambda: quarry.Session(model), lambda: model.check(), lambda: quarry.plan(model),
                 lambda: model.compile(tmp_path / "a.qrm", progress=lambda *step: None)):
        assert took(call, after=0.3) < LATEST
    assert not list(tmp_path.iterdir()) and not interrupts._active


def test_ctrl_c_ends_a_quantisation(tmp_path):
    side = 1200  # the rounding of so many weights takes many seconds
    rng = np.random.default_rng(1)
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"MatMul")
    graph = field(1, node) + field(2, b"g") + field(5, tensor("w", rng.random((side, side), np.float32) - 0.5))
    graph += field(11, value_info("x", 1, [64, side])) + field(12, value_info("y", 1, [64, side]))
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x0a" + field(7, graph) + field(8, b"\x10" + varint(21)))
    quantizer = quarry.Quantizer(path, adaptive_rounding=True, threads=2)
    for _ in range(4):
        quantizer.add(rng.random((64, side), np.float32))
    for after in (0.1, 0.4, 1.5):
        assert took(lambda: quantizer.write(tmp_path / "q.onnx"), after=after) < LATEST
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"] and quantizer.samples == 4


def products(side, depth):
    """y = x w w w ...: a model whose weights fill a file, and whose samples take long."""
    weights = [field(5, tensor(f"w{i}", np.full((side, side), 1 / side, np.float32))) for i in range(depth)]
    nodes = [field(1, field(1, f"k{i}".encode()) + field(1, f"w{i}".encode()) + field(2, f"k{i + 1}".encode()) + field(4, b"MatMul")) for i in range(depth)]
    graph = b"".join(nodes) + field(2, b"g") + b"".join(weights)
    graph += field(11, value_info("k0", 1, [side, side])) + field(12, value_info(f"k{depth}", 1, [side, side]))
    return b"\x08\x0a" + field(7, graph) + field(8, b"\x10" + varint(21))


def test_ctrl_c_ends_a_quantiser_s_opening_and_its_samples(tmp_path):
    side = 1500
    (tmp_path / "m.onnx").write_bytes(products(side, 12))
    sample = np.full((side, side), 0.5, np.float32)

    def opened():
        return quarry.Quantizer(tmp_path / "m.onnx", threads=1)

    begun = time.monotonic()
    quantizer = opened()
    opening = time.monotonic() - begun
    begun = time.monotonic()
    quantizer.add(sample)
    first = time.monotonic() - begun  # the model is prepared in it
    begun = time.monotonic()
    quantizer.add(sample)
    adding = time.monotonic() - begun
    done = []
    # Where a call is over before the signal comes, Ctrl-C is what hit the waiting for it.
    for part in (0.2, 0.5):
        assert took(lambda: (opened(), time.sleep(60)), after=opening * part) < LATEST
        assert took(lambda: (opened().add(sample), time.sleep(60)), after=opening + first * part) < LATEST
        assert took(lambda: (quantizer.add(sample), done.append(1), time.sleep(60)), after=adding * part) < LATEST
    assert quantizer.samples == 2 + len(done)  # one that was ended leaves everything as it was


class Enough(BaseException):
    """No Exception, as KeyboardInterrupt is none."""


@pytest.mark.parametrize("kind", [ZeroDivisionError, KeyboardInterrupt, Enough])
def test_what_a_progress_function_raises_stops_the_call(digits, tmp_path, kind):
    model, told = quarry.Model(slow_to_compile()), []

    def progress(done, total, what):
        told.append(what)
        raise kind("told")

    stop = quarry.Signal()
    for call in (lambda: model.compile(tmp_path / "a.qrm", progress=progress), lambda: quarry.Session(model, progress=progress),
                 lambda: model.compile(tmp_path / "a.qrm", progress=progress, signal=stop)):
        begin, before = time.monotonic(), len(told)
        with pytest.raises(kind, match="told"):
            call()
        assert time.monotonic() - begin < (1 if os.name != "nt" else 5) and len(told) == before + 1  # compiling takes many times as long
    assert not list(tmp_path.iterdir())
    # The caller's signal serves other calls as before.
    quarry.Session(digits.model, signal=stop).run(digits.images[0], signal=stop)
    with pytest.raises(kind, match="told"):
        quarry.quantize(digits.model, digits.images[:4], tmp_path / "q.onnx", progress=progress)
    with quarry.Quantizer(digits.model) as quantizer, pytest.raises(kind, match="told"):
        quantizer.add(digits.images[0], progress=progress)
    assert not list(tmp_path.iterdir())


def test_a_progress_function_says_stop(digits, tmp_path):
    model = quarry.Model(digits.model)
    for answer in (None, True, 0, "go on"):  # False alone stops
        model.compile(tmp_path / "a.qrm", progress=lambda *step: answer)
    for call in (lambda: model.compile(tmp_path / "b.qrm", progress=lambda *step: False), lambda: quarry.Session(model, progress=lambda *step: False)):
        with pytest.raises(quarry.Cancelled) as stopped:
            call()
        assert stopped.value.id == "QR-C0013" and "progress function" in str(stopped.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.qrm"]


def test_a_derived_signal_has_the_time_that_is_left(digits):
    whole = quarry.Signal(timeout=0.3)
    part = whole.derive()
    part.check()
    session = quarry.Session(digits.model, signal=part)
    time.sleep(0.35)
    for late in (part, part.derive()):
        with pytest.raises(quarry.DeadlineExceeded):
            late.check()
        with pytest.raises(quarry.DeadlineExceeded):
            session.run(digits.images[0], signal=late)
    session.run(digits.images[0], signal=whole)  # each call of its own has 0.3 s again
    whole.set_timeout(None)
    part = whole.derive()
    whole.abort()
    with pytest.raises(quarry.Cancelled):
        part.check()
    with pytest.raises(quarry.Cancelled):
        session.run(digits.images[0], signal=part)


def test_a_signal_of_the_caller_s_reaches_a_call_that_is_watched(tmp_path):
    model, stop = quarry.Model(slow_to_compile()), quarry.Signal()
    threading.Timer(0.3, stop.abort).start()
    begin = time.monotonic()
    with pytest.raises(quarry.Cancelled):
        model.compile(tmp_path / "a.qrm", signal=stop, progress=lambda *step: None)
    assert time.monotonic() - begin < 2
    with pytest.raises(quarry.Cancelled):
        model.compile(tmp_path / "a.qrm", signal=stop)
    stop.reset()
    stop.set_timeout(0.2)
    with pytest.raises(quarry.DeadlineExceeded):
        model.compile(tmp_path / "a.qrm", signal=stop)


def test_ctrl_c_in_a_log_function_comes_out_of_the_call(digits, capsys):
    lines = []

    def log(level, topic, message):
        lines.append(message)
        if len(lines) == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        quarry.Session(digits.model, runtime=quarry.Runtime(log=log, log_level="trace"), threads=1)
    assert lines

    def fails(level, topic, message):
        raise ZeroDivisionError("of the log")

    quarry.Session(digits.model, runtime=quarry.Runtime(log=fails, log_level="trace"), threads=1).run(digits.images[0])
    assert "of the log" in capsys.readouterr().err


def test_ctrl_c_while_a_session_is_collected_is_not_lost(digits, monkeypatch):
    class Library:
        @staticmethod
        def qr_session_destroy(pointer):
            destroy(pointer)
            signal.raise_signal(signal.SIGINT)

    session = quarry.Session(digits.model, threads=1)
    session.run(digits.images[0])
    destroy = quarry.session.lib.qr_session_destroy
    monkeypatch.setattr(quarry.session, "lib", Library)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        del session
        gc.collect()
        time.sleep(10)
    assert time.monotonic() - begun < 5  # what the program waits in is ended too


@unix_alone
def test_other_signals_and_handlers_do_not_end_a_run():
    session, heard = slow_session(), []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    alarm = signal.signal(signal.SIGALRM, lambda number, frame: heard.append(number))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        with ctrl_c(0.05):
            assert session.run([ONES, ONES])[0][0, 0] == len(ONES)
            time.sleep(0.1)
        assert signal.SIGINT in heard and signal.SIGALRM in heard
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, before)
        signal.signal(signal.SIGALRM, alarm)


@unix_alone
def test_the_descriptor_of_an_event_loop_is_told_too():
    async def main():
        heard = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, heard.set)
        threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        slow_session().run([ONES, ONES])  # in the loop's own thread, which is a fault of the program's
        await asyncio.wait_for(heard.wait(), 10)

    asyncio.run(main())
    assert signal.set_wakeup_fd(-1) == -1


@unix_alone
def test_ctrl_c_in_asyncio_ends_runs_of_every_kind():
    """The first Ctrl-C cancels the main task: neither a queued run nor one in a thread keeps the program."""
    program = """
import asyncio, sys, time
sys.path.insert(0, {tests!r})
import numpy as np
from conftest import onnx_model
import quarry
side = 3000
shape = [side, side]
ones = np.ones(shape, np.float32)
session = quarry.Session(onnx_model("MatMul", [("a", 1, shape), ("b", 1, shape)], [("c", 1, shape)]), backend="cpu-reference", threads=1)
if {unknown}:
    session._out.sizes[0] = None  # as of a model of data-dependent shapes
async def main():
    print("ready", flush=True)
    await session.run_async([ones, ones])
asyncio.run(main())
"""
    for unknown in (False, True):
        child = subprocess.Popen([sys.executable, "-c", program.format(tests=os.path.dirname(os.path.abspath(__file__)), unknown=unknown)], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True)
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.2)
        begin = time.monotonic()
        child.send_signal(signal.SIGINT)
        error = child.communicate(timeout=60)[1]
        assert "KeyboardInterrupt" in error and time.monotonic() - begin < 2, error


@unix_alone
def test_forked_children_hear_of_their_own_signals_alone(digits):
    session = quarry.Session(digits.model, threads=1)
    session.run(digits.images[0])
    child = os.fork()
    if child == 0:
        status = 1
        try:
            own = long_session()
            status = 0 if took(lambda: own.run([BIG, BIG]), after=0.2) < LATEST else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    session.run(digits.images[0])


def test_threads_that_are_not_the_main_one_run_as_ever(digits):
    session, found = quarry.Session(digits.model, threads=1), []
    thread = threading.Thread(target=lambda: found.append(session.run(digits.images[0])))
    thread.start()
    thread.join()
    assert found and not interrupts._active
    logging.getLogger("quarry").debug("used")
    gc.collect()
