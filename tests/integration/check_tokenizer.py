#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libquarry-tokenizer beside the Python package tokenizers, on tokenizers that are trained here; and `quarry chat` with texts.

check_tokenizer.py BUILD WORK      WORK: a folder for what cargo and pip make
Exit status 77: cargo, its crates or the Python package cannot be had; the last line says why.
"""
import ctypes as c
import json
import os
import subprocess
import sys
import venv

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
build, work = (os.path.abspath(a) for a in sys.argv[1:3])
python = os.path.join(work, "venv", "bin", "python")
if os.path.realpath(sys.prefix) != os.path.realpath(os.path.join(work, "venv")):
    done = subprocess.run([sys.executable, os.path.join(root, "bindings", "tokenizer", "build.py"), os.path.join(build, "generate"), "--work", os.path.join(work, "cargo")],
                          capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout + done.stderr[-4000:])
        sys.exit(done.returncode)
    done = subprocess.run([sys.executable, os.path.join(root, "bindings", "tokenizer", "licenses.py")], capture_output=True, text=True)
    print(done.stdout + done.stderr, end="", flush=True)
    if done.returncode != 0:
        sys.exit(done.returncode)
    if not os.path.exists(python):
        venv.create(os.path.join(work, "venv"), with_pip=True)
    if subprocess.run([python, "-c", "import tokenizers"], capture_output=True).returncode != 0:
        done = subprocess.run([python, "-m", "pip", "install", "-q", "tokenizers==0.23.*"], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"the Python package tokenizers cannot be had: {(done.stderr.strip().splitlines() or ['?'])[-1]}")
            sys.exit(77)
    os.execv(python, [python, os.path.abspath(__file__), build, work])

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

sys.argv[2] = work
sys.path.insert(0, here)
import letters  # noqa: E402
from program import check, environment, finish, new_folder, quarry, require, run  # noqa: E402

folder = new_folder()
lib = c.CDLL(os.path.join(build, "generate", "libquarry-tokenizer.so.0"))


class String(c.Structure):
    _fields_ = [("data", c.c_char_p), ("size", c.c_uint64)]


class View(c.Structure):  # a text that is lent
    _fields_ = [("data", c.c_void_p), ("size", c.c_uint64)]

    def bytes(self):
        return c.string_at(self.data, self.size) if self.size else b""


class StreamOptions(c.Structure):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("stops", c.POINTER(String)), ("stop_count", c.c_uint64)]


for name in ("id", "message", "hint"):
    getattr(lib, "qr_tokenizer_error_" + name).restype = c.c_char_p
    getattr(lib, "qr_tokenizer_error_" + name).argtypes = [c.c_void_p]
for name in ("qr_tokenizer_open", "qr_tokenizer_open_memory", "qr_tokenizer_encode", "qr_tokenizer_decode", "qr_tokenizer_token", "qr_tokenizer_special", "qr_text_stream_create",
             "qr_text_stream_push", "qr_text_stream_finish"):
    getattr(lib, name).restype = c.c_void_p
for name in ("qr_tokenizer_destroy", "qr_text_stream_destroy", "qr_tokenizer_error_destroy", "qr_tokenizer_text_destroy", "qr_tokenizer_error_code"):
    getattr(lib, name).argtypes = [c.c_void_p]
for name in ("qr_tokenizer_vocabulary", "qr_tokenizer_special_count"):
    getattr(lib, name).argtypes, getattr(lib, name).restype = [c.c_void_p], c.c_uint64


class Error(Exception):
    pass


def call(function, *arguments):
    error = getattr(lib, function)(*arguments)
    if error:
        said = [getattr(lib, "qr_tokenizer_error_" + part)(error).decode() for part in ("id", "message", "hint")]
        code = lib.qr_tokenizer_error_code(error)
        lib.qr_tokenizer_error_destroy(error)
        raise Error(f"{said[0]} ({code}) {said[1]} | {said[2]}")


def refused(name, *texts):
    def told(function, *arguments):
        try:
            call(function, *arguments)
            require(name, False, "it succeeded")
        except Error as error:
            require(name, all(text in str(error) for text in texts), str(error))
    return told


def given(data):
    data = data.encode() if isinstance(data, str) else data
    return String(data, len(data))


class Ours:
    def __init__(self, path):
        self.ptr = c.c_void_p()
        call("qr_tokenizer_open", given(os.fsencode(path)), c.byref(self.ptr))

    def encode(self, text, special):
        tokens, count = c.POINTER(c.c_int64)(), c.c_uint64()
        call("qr_tokenizer_encode", self.ptr, given(text), c.c_uint32(special), c.byref(tokens), c.byref(count))
        out = tokens[:count.value]
        lib.qr_tokenizer_tokens_destroy(tokens, count)
        return out

    def decode(self, tokens, skip):
        out = c.c_void_p()
        call("qr_tokenizer_decode", self.ptr, (c.c_int64 * len(tokens))(*tokens), c.c_uint64(len(tokens)), c.c_uint32(skip), c.byref(out))
        text = c.string_at(out.value).decode()
        lib.qr_tokenizer_text_destroy(out)
        return text

    def stream(self, tokens, skip=0, stops=()):
        """Pieces, and whether a stop text ended them."""
        texts = (String * len(stops))(*map(given, stops))
        options, stream = StreamOptions(c.sizeof(StreamOptions), skip, texts, len(stops)), c.c_void_p()
        call("qr_text_stream_create", self.ptr, c.byref(options), c.byref(stream))
        pieces, view, stopped = [], View(), c.c_int32()
        for token in tokens:
            call("qr_text_stream_push", stream, c.c_int64(token), c.byref(view), c.byref(stopped))
            pieces.append(view.bytes().decode())  # whole characters
            if stopped.value:
                break
        else:
            call("qr_text_stream_finish", stream, c.byref(view))
            pieces.append(view.bytes().decode())
        lib.qr_text_stream_destroy(stream)
        return pieces, bool(stopped.value)


# ---- tokenizers of each kind, trained on this tree's own texts
corpus = [os.path.join(root, name) for name in ("README.md", "ARCHITECTURE.md", "docs/guide.md", "docs/glossary.md")]
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>"]


def saved(name, tokenizer, trainer):
    tokenizer.train(corpus, trainer)
    path = os.path.join(folder, name + ".json")
    tokenizer.save(path)
    return path


def byte_level():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(  # the expression of GPT-4 and Llama 3
        __import__("tokenizers").Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    path = saved("bytes", tokenizer, trainers.BpeTrainer(vocab_size=600, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(path)
    return path


def metaspace():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return saved("unigram", tokenizer, trainers.UnigramTrainer(vocab_size=400, special_tokens=SPECIAL + ["<unk>"], unk_token="<unk>", show_progress=False))


def word_piece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    return saved("pieces", tokenizer, trainers.WordPieceTrainer(vocab_size=400, special_tokens=SPECIAL + ["[UNK]"], show_progress=False))


TEXTS = ["", " ", "Quarry runs ONNX models inside your program.", "  two  blanks\n\nand\tlines\r\n", "naïve café, Ελληνικά, русский, 日本語のテキスト, 한국어, עברית", "👩‍👩‍👧‍👦 family, 🏳️‍🌈 flag, 🙂",
         "<|im_start|>user\nhello<|im_end|>", "it's I'll we've 1234567 3.14", "a" * 300, "\u0000 zero \ufffd replaced", "e\u0301 and \u00e9"]
for make in (byte_level, metaspace, word_piece):
    path = make()
    theirs, ours = Tokenizer.from_file(path), Ours(path)
    require(f"{path}: vocabulary", lib.qr_tokenizer_vocabulary(ours.ptr) == theirs.get_vocab_size())
    for text in TEXTS:
        for special in (0, 1):
            ids = theirs.encode(text, add_special_tokens=bool(special)).ids
            found = ours.encode(text, special)
            require(f"{make.__name__}: {text[:20]!r} as tokens", found == ids, (found, ids))
        for skip in (0, 1):
            expected = theirs.decode(ids, skip_special_tokens=bool(skip)).replace("\0", "\ufffd")
            require(f"{make.__name__}: {text[:20]!r} back", ours.decode(ids, skip) == expected, expected)
            pieces, _ = ours.stream(ids, skip)
            require(f"{make.__name__}: {text[:20]!r} piece by piece", "".join(pieces).replace("\0", "\ufffd") == expected, (pieces, expected))
    lib.qr_tokenizer_destroy(ours.ptr)

# ---- half a character is held back, and so is what may begin a stop text
path = os.path.join(folder, "bytes.json")
ours, theirs = Ours(path), Tokenizer.from_file(path)
ids = theirs.encode("日🙂", add_special_tokens=False).ids
pieces, _ = ours.stream(ids)
require("characters of several tokens", len(ids) == 7 and [p for p in pieces if p] == ["日", "🙂"], (ids, pieces))
pieces, _ = ours.stream(ids[:-1])
require("a character that never ends", pieces[-1] == "\ufffd" or pieces[-1].endswith("\ufffd"), pieces)
for text, stops, expected, ended in (("hello END more", ["END"], "hello ", True), ("hello EN more", ["END"], "hello EN more", False), ("ab", ["abc", "b"], "a", True),
                                     ("one\nUser: two", ["\nUser:"], "one", True), ("EEND", ["END"], "E", True), ("x 🙂 y", ["🙂"], "x ", True)):
    pieces, stopped = ours.stream(theirs.encode(text, add_special_tokens=False).ids, stops=stops)
    require(f"{text!r} with {stops}", "".join(pieces) == expected and stopped == ended, (pieces, stopped))
token, view = c.c_int64(), View()
call("qr_tokenizer_token", ours.ptr, given("<|im_end|>"), c.byref(token))
require("a token by its text", token.value == 3)
require("special tokens", lib.qr_tokenizer_special_count(ours.ptr) == 4)
call("qr_tokenizer_special", ours.ptr, c.c_uint64(1), c.byref(token), c.byref(view))
require("a special token", (token.value, view.bytes()) == (1, b"</s>"))

# ---- what is refused
out, count = c.c_void_p(), c.c_uint64()
refused("a file that is not there", "QR-F0001 (3)", "none.json", "check the path")("qr_tokenizer_open", given(os.path.join(folder, "none.json")), c.byref(out))
refused("a folder", "QR-F0004 (9)")("qr_tokenizer_open", given(folder), c.byref(out))
for data in (b"", b"{}", b"{\"version\": \"1.0\"", b"\xff\xfe", json.dumps({"model": {"type": "Frob"}}).encode()):
    refused(f"{data}", "QR-T0001 (7)", "expected one of Hugging Face's", "tokenizer.json that the model came with")("qr_tokenizer_open_memory", data, c.c_uint64(len(data)), c.byref(out))
refused("no UTF-8", "QR-C0009 (1)")("qr_tokenizer_encode", ours.ptr, given(b"\xff"), c.c_uint32(0), c.byref(out), c.byref(count))
refused("a flag", "QR-C0005 (1)")("qr_tokenizer_encode", ours.ptr, given("a"), c.c_uint32(6), c.byref(out), c.byref(count))
refused("NULL", "QR-C0002 (1)", "tokenizer")("qr_tokenizer_encode", None, given("a"), c.c_uint32(0), c.byref(out), c.byref(count))
refused("a token under 0", "QR-C0007 (1)", "found the token -1")("qr_tokenizer_decode", ours.ptr, (c.c_int64 * 1)(-1), c.c_uint64(1), c.c_uint32(0), c.byref(out))
refused("no such token", "QR-T0002 (3)", "'<none>'", "<|im_start|>")("qr_tokenizer_token", ours.ptr, given("<none>"), c.byref(token))
refused("an index", "QR-C0008 (4)", "under 4")("qr_tokenizer_special", ours.ptr, c.c_uint64(4), c.byref(token), c.byref(view))
refused("a small struct", "QR-C0003 (1)")("qr_text_stream_create", ours.ptr, c.byref(StreamOptions(8, 0, None, 0)), c.byref(out))
refused("an empty stop text", "QR-C0007 (1)", "empty text")("qr_text_stream_create", ours.ptr, c.byref(StreamOptions(24, 0, (String * 1)(given("")), 1)), c.byref(out))
require("what was to be given stays", out.value is None)
lib.qr_tokenizer_destroy(ours.ptr)
lib.qr_tokenizer_destroy(None)

# ---- quarry chat with texts: the decoder of tests/capi, whose tokens are letters here
with open(os.path.join(folder, "decoder.onnx"), "wb") as file:
    file.write(letters.decoder(root))
with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
    json.dump(letters.tokenizer(), file)


def chat(name, prompt, *words):
    done = subprocess.run([quarry, "chat", "decoder.onnx", "--tokenizer", "tokenizer.json", *words], input=prompt, capture_output=True, text=True, env=environment, cwd=folder, timeout=120)
    return check(name, done, 0).stdout


require("a text", chat("a text", f"{letters.ASKED}\n", "--max-tokens", "8") == f"{letters.ANSWER}\n")
require("its tokens", chat("its tokens", "d b e b f\n", "--max-tokens", "8", "--tokens") == "8 2 6 6 4 4 2 7\n")
require("a stop text", chat("a stop text", "d b e b f\n", "--stop", "g e") == "i c g \n")
require("a stop token by its name", chat("a stop token by its name", "d b e b f\n", "--stop-token", "e") == "i c g g\n")
require("a template", chat("a template", "b f\n", "--template", "d b e {prompt}", "--max-tokens", "3") == "i c g\n")
require("a template with a system", chat("a template with a system", "b f\n", "--template", "{system} b e {prompt}", "--system", "d", "--max-tokens", "3") == "i c g\n")
require("a conversation", chat("a conversation", "d b e b f\ne c\n", "--max-tokens", "3").splitlines()[0] == "i c g")
check("no tokenizer.json", run("chat", os.path.join(folder, "decoder.onnx"), "--tokenizer", os.path.join(folder, "decoder.onnx"), stdin=subprocess.DEVNULL), 3, "QR-T0001", "tokenizer.json")
# The example of the help.
with open(os.path.join(folder, "tokenizer.json"), encoding="utf-8") as file:
    require("the file is JSON", json.load(file)["model"]["type"] == "WordLevel")
finish()
