# SPDX-License-Identifier: Apache-2.0
"""Queued runs and asyncio."""
import asyncio
import gc
import weakref

import numpy as np
import pytest
from conftest import onnx_model

import quarry

SIZE = 900


def slow_session(**options):
    """A session whose run takes a while: a product by cpu-reference's plain loops."""
    shape = [SIZE, SIZE]
    return quarry.Session(onnx_model("MatMul", [("a", 1, shape), ("b", 1, shape)], [("c", 1, shape)]), backend="cpu-reference", threads=1, **options)


ONES = np.ones((SIZE, SIZE), np.float32)


def test_runs_are_queued_and_end_in_order(digits):
    session = quarry.Session(digits.model, threads=1, queue_depth=4)
    runs = [session.submit(image) for image in digits.images[:4]]
    for image, run in reversed(list(zip(digits.images, runs))):
        np.testing.assert_array_equal(run.wait()[0], session.clone().run(image)[0])
        assert run.done and run.wait()[0].shape == (1, 10)
    assert not session._kept


def test_a_full_queue_is_busy_and_a_wait_may_be_limited():
    session = slow_session(queue_depth=1)
    run = session.submit([ONES, ONES])
    with pytest.raises(quarry.Busy):
        session.submit([ONES, ONES])
    for timeout in (0.001, 0, -1):
        with pytest.raises(quarry.DeadlineExceeded) as caught:
            run.wait(timeout=timeout)
        assert caught.value.id == "QR-R0020" and not run.done and session._kept
    assert run.wait()[0][0, 0] == SIZE
    assert not session._kept


def test_a_queued_run_is_aborted():
    session = slow_session()
    run = session.submit([ONES, ONES])
    run.abort()
    with pytest.raises(quarry.Cancelled):
        run.wait()
    signal = quarry.Signal(timeout=0.001)
    run = session.submit([ONES, ONES], signal=signal)
    with pytest.raises(quarry.DeadlineExceeded) as caught:
        run.wait()
    assert caught.value.id != "QR-R0020" and run.done
    assert not session._kept


def test_arrays_of_a_queued_run_stay_until_it_has_ended():
    session = slow_session()
    given = np.ones((SIZE, SIZE), np.float32)
    alive = weakref.ref(given)
    run = session.submit([given, ONES])
    del given
    gc.collect()
    assert alive() is not None
    run.wait()
    # dropped in the middle of a run: nothing of it may go before its end
    session.submit([np.ones((SIZE, SIZE), np.float32), ONES])
    del session, run
    gc.collect()


def test_a_queued_run_needs_room():
    session = quarry.Session(onnx_model("NonZero", [("x", 1, [2, 3])], [("y", 7, [2, "n"])]))
    given = np.eye(2, 3, dtype=np.float32)
    with pytest.raises(ValueError, match="out="):
        session.submit(given)
    np.testing.assert_array_equal(session.submit(given, out=[np.empty((2, 6), np.int64)]).wait()[0], np.stack(given.nonzero()))


def test_the_loop_goes_on_while_a_run_is_under_way():
    async def main():
        session, ticks = slow_session(), 0
        task = asyncio.ensure_future(session.run_async([ONES, ONES]))
        while not task.done():
            ticks += 1
            await asyncio.sleep(0.002)
        assert task.result()[0][3, 5] == SIZE
        return ticks

    assert asyncio.run(main()) > 10


def test_many_coroutines_share_a_session(digits):
    async def main():
        session = quarry.Session(digits.model, threads=1)
        found = await asyncio.gather(*[session.run_async(image) for image in digits.images[:100]])
        return np.concatenate([one[0] for one in found])

    for _ in range(2):  # another loop
        np.testing.assert_allclose(asyncio.run(main()), digits.expected.reshape(-1, 10)[:100], atol=1e-4)


def test_a_cancelled_task_aborts_its_run():
    async def main():
        session = slow_session()
        task = asyncio.ensure_future(session.run_async([ONES, ONES]))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await asyncio.wait_for(session.run_async([ONES, ONES]), 60))[0][0, 0] == SIZE
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.run_async([ONES, ONES]), 0.001)
        return session

    session = asyncio.run(main())
    session.close()


def test_errors_and_unknown_extents_in_coroutines():
    async def main():
        session = quarry.Session(onnx_model("NonZero", [("x", 1, [2, 3])], [("y", 7, [2, "n"])]))
        found = await session.run_async(np.eye(2, 3, dtype=np.float32))
        assert found[0].shape == (2, 2)
        with pytest.raises(quarry.InvalidArgument):
            await session.run_async(np.eye(2, 3))

    asyncio.run(main())


def test_a_queued_run_has_a_timeout():
    session = slow_session(queue_depth=1)
    with pytest.raises(quarry.DeadlineExceeded) as caught:
        session.submit([ONES, ONES], timeout=0.001).wait()
    assert caught.value.id != "QR-R0020" and not session._kept
    assert session.submit([ONES, ONES], timeout=600).wait()[0][0, 0] == SIZE

    async def both():
        with pytest.raises(quarry.DeadlineExceeded):
            await session.run_async([ONES, ONES], timeout=0.001)
        first = asyncio.ensure_future(session.run_async([ONES, ONES]))
        await asyncio.sleep(0)
        with pytest.raises(quarry.DeadlineExceeded):  # it waits for its turn
            await session.run_async([ONES, ONES], timeout=0.001)
        assert (await first)[0][0, 0] == SIZE
        return (await session.run_async([ONES, ONES], timeout=600))[0][0, 0]

    assert asyncio.run(both()) == SIZE


def test_a_run_of_unknown_extents_has_a_timeout_too():
    session = quarry.Session(onnx_model("NonZero", [("x", 1, [2, 3])], [("y", 7, [2, "n"])]))
    given = np.eye(2, 3, dtype=np.float32)
    assert asyncio.run(session.run_async(given, timeout=600))[0].tolist() == [[0, 1], [0, 1]]
    with pytest.raises(quarry.DeadlineExceeded):
        asyncio.run(session.run_async(given, timeout=0))
