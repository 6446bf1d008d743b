# SPDX-License-Identifier: Apache-2.0
"""Where log lines go."""
import gc
import logging
import pickle

import pytest

import quarry


def test_a_function_gets_level_topic_and_message(digits):
    lines = []
    runtime = quarry.Runtime(log=lambda *line: lines.append(line), log_level="debug")
    model = quarry.Model(digits.model, runtime=runtime)
    del runtime
    gc.collect()  # what was made from it goes on logging
    before = len(lines)
    quarry.Session(model, threads=1).close()
    assert len(lines) > before
    assert all(level in (logging.DEBUG, logging.INFO) and topic and message for level, topic, message in lines)


def test_loggers_have_children_of_the_topics(digits, caplog):
    with caplog.at_level(logging.DEBUG, logger="app"):
        quarry.Session(quarry.Model(digits.model, runtime=quarry.Runtime(log=logging.getLogger("app"), log_level="debug"))).close()
    assert caplog.records and all(record.name.startswith("app.") for record in caplog.records)


def test_levels(digits):
    lines = []
    quarry.Session(quarry.Model(digits.model, runtime=quarry.Runtime(log=lambda *line: lines.append(line)))).close()
    assert not lines  # nothing to warn of
    with pytest.raises(ValueError, match="warn"):
        quarry.Runtime(log=print, log_level="loud")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_the_function_raises_stays_there(digits, capfd):
    def broken(*_):
        raise RuntimeError("of the sink")

    with quarry.Session(quarry.Model(digits.model, runtime=quarry.Runtime(log=broken, log_level="debug"))) as session:
        assert session.run(digits.images[0])[0].shape == (1, 10)
    capfd.readouterr()


def test_a_runtime_with_a_logger_is_pickled():
    again = pickle.loads(pickle.dumps(quarry.Runtime(log=logging.getLogger("app"), log_level="info")))
    assert again._made_with["log"] is logging.getLogger("app") and again._made_with["log_level"] == "info"


def test_a_line_of_a_broken_contract_says_whose(caplog):
    lib, ffi = quarry._library.lib, quarry._library.ffi
    handle = ffi.new_handle(logging.getLogger("app"))
    topic, message = quarry._library.Text("run"), quarry._library.Text("found")
    for flags in (0, lib.QR_LOG_CALLER_MISBEHAVES, lib.QR_LOG_PLUGIN_MISBEHAVES, 1 << 20):
        quarry.runtime._write_log(handle, lib.QR_LOG_ERROR, flags, topic.c, message.c)
    assert [(record.levelno, record.misbehaves) for record in caplog.records] == [(logging.ERROR, who) for who in ("", "caller", "plugin", "")]
