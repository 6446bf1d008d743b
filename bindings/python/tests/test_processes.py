# SPDX-License-Identifier: Apache-2.0
"""Pickles, fork and spawn."""
import copy
import multiprocessing
import os
import pickle
import threading

import numpy as np
import pytest
from conftest import unix_alone

import quarry


def classify(session, image):
    return session.run(image)[0]


def classify_path(path, image):
    return quarry.Session(path, threads=1).run(image)[0]


def test_pickles_name_the_model_s_file(digits, session):
    data = pickle.dumps(session)
    assert os.path.basename(digits.model).encode() in data and len(data) < 1000
    again = pickle.loads(data)
    assert again.report()["options"]["threads"] == session.report()["options"]["threads"]
    np.testing.assert_array_equal(classify(again, digits.images[0]), classify(session, digits.images[0]))
    assert again.model.runtime is quarry.default_runtime()
    of_bytes = quarry.Session(open(digits.model, "rb").read())
    np.testing.assert_array_equal(classify(pickle.loads(pickle.dumps(of_bytes)), digits.images[0]), classify(session, digits.images[0]))
    np.testing.assert_array_equal(classify(copy.deepcopy(of_bytes), digits.images[0]), classify(session, digits.images[0]))
    error = quarry.InvalidArgument(quarry.Code.INVALID_ARGUMENT, "QR-C0107", "found", "hint", (("reason", "why"),))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_other_processes(digits, session, method):
    wanted = classify(session, digits.images[2])
    with multiprocessing.get_context(method).Pool(2) as pool:
        for found in (pool.apply(classify, (session, digits.images[2])), pool.apply(classify_path, (digits.model, digits.images[2]))):
            np.testing.assert_array_equal(found, wanted)


def in_child(work):
    """The exit status of a forked child that does `work`."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@unix_alone
def test_a_forked_child_goes_on_with_what_its_parent_made(digits):
    session = quarry.Session(digits.model, threads=2, queue_depth=4)
    wanted = session.run(digits.images[0])[0]
    session.submit(digits.images[0]).wait()

    def work():
        np.testing.assert_array_equal(session.run(digits.images[0])[0], wanted)
        np.testing.assert_array_equal(session.submit(digits.images[0]).wait()[0], wanted)
        session.clone().run(digits.images[1])
        session.close()

    assert in_child(work) == 0
    np.testing.assert_array_equal(session.run(digits.images[0])[0], wanted)


@unix_alone
def test_a_child_does_not_wait_for_a_thread_of_its_parent(digits):
    session = quarry.Session(digits.model, threads=1)
    held, go = threading.Event(), threading.Event()

    def hold():
        with session._lock:
            held.set()
            go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()

    def work():
        session.run(digits.images[0])  # the lock's owner is not in this process

    try:
        assert in_child(work) == 0
    finally:
        go.set()
        thread.join()
