// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.IO;
using System.Text;
using System.Threading;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>A small Llama goes on with a story: what is expected is ONNX Runtime's, as in the tests of Rust and Go.</summary>
    internal static class GeneratorTests {
        static readonly long[] Beginning = {1, 3, 34, 9, 22, 4, 3, 18, 20, 7};
        static readonly long[] Story = {9, 3, 5, 3, 6, 10, 16, 4, 25, 3, 6, 8, 4, 13, 4, 3, 17, 5, 12, 3, 5, 3, 14, 10};

        static string File {
            get { return Path.Combine(SharedFolder, "models", "babyllama105_kv_f32", "model.onnx"); }
        }

        static Dictionary<string, string> Keeps(string capacity) {
            return With("threads", "1", "state", "auto", "state.capacity", capacity);
        }

        /// <summary>What a test does with a session of the model, which it does not do where there is none.</summary>
        static void On(string capacity, Action<Session> test) {
            if (!System.IO.File.Exists(File)) {
                Console.WriteLine("skipped: a test of generators: there is no " + File);
                return;
            }
            using (Model model = Model.Open(File))
            using (Session session = model.CreateSession(Keeps(capacity))) test(session);
        }

        static Generator Started(Session session, GeneratorOptions options = null) {
            Generator generator = session.CreateGenerator(options);
            generator.Prompt(Beginning);
            return generator;
        }

        static string Row(IEnumerable<long> tokens) {
            return string.Join(",", tokens);
        }

        static long[] Part(int from, int to) {
            var part = new long[to - from];
            Array.Copy(Story, from, part, 0, part.Length);
            return part;
        }

        static string Ended(GeneratedRun run) {
            return run.Count + " " + run.End;
        }

        static TokenSink Into(List<long> found) {
            return token => {
                found.Add(token);
                return true;
            };
        }

        static void TestGeneratedTokens() {
            On("2048", session => {
                using (Generator generator = Started(session, new GeneratorOptions {MaxNewTokens = 24})) {
                    var found = new List<long>();
                    Same(Ended(generator.Run(Into(found))), "24 Length");
                    Same(Row(found), Row(Story));
                    TokenSequence has = generator.GetSequence();
                    Same(Row(has.Tokens), Row(Beginning) + "," + Row(Story));
                    Same(has.Run + " " + has.Vocabulary, "33 105");
                    // The same prompt again is not run again, but for its last token; a choice of one's own goes on from there.
                    generator.Prompt(Beginning);
                    Same(generator.GetSequence().Reused, 9L);
                    float[] logits = generator.Logits();
                    int best = 0;
                    for (int i = 0; i < logits.Length; ++i)
                        if (logits[i] > logits[best]) best = i;
                    Same(logits.Length + " " + best, "105 " + Story[0]);
                    generator.Accept(Story[0]);
                    GeneratedToken step = generator.Step();
                    Same(step.Token + " " + step.End, Story[1] + " None");
                    Check(Fails(Code.OutOfRange, () => generator.Rewind(99)).Message.Contains("99"), "it does not say what it found");
                    // A beginning that was saved is not run again.
                    generator.Rewind(10);
                    using (State state = generator.GetState())
                    using (Generator other = session.CreateGenerator(new GeneratorOptions {MaxNewTokens = 2}))
                    using (State there = other.GetState()) {
                        there.Load(state.Save());
                        other.Restore(Beginning);
                        other.Run();
                        Same(Row(other.GetSequence().Tokens), Row(Beginning) + "," + Row(Part(0, 2)));
                    }
                }
            });
        }

        static void TestReasonsToEnd() {
            On("2048", session => {
                using (var signal = new Signal())
                using (var source = new CancellationTokenSource())
                using (Generator generator = Started(session, new GeneratorOptions {StopTokens = new long[] {77, Story[5]}})) {
                    Same(Ended(generator.Run()), "6 StopToken");
                    Same(Ended(generator.Run(token => false)), "1 Callback");
                    signal.Abort();
                    Same(Ended(generator.Run(null, signal)), "0 Aborted");
                    Fails(Code.Cancelled, () => session.CreateGenerator(null, signal));
                    signal.Reset();
                    signal.SetTimeout(TimeSpan.Zero);
                    Same(Ended(generator.Run(null, signal)), "0 Deadline");
                    Fails(Code.DeadlineExceeded, () => generator.Step(signal));
                    Fails(Code.DeadlineExceeded, () => generator.Prompt(new long[] {5, 6}, signal));
                    signal.SetTimeout(null);
                    generator.Prompt(new long[] {5, 6}, signal, source.Token);
                    Same(Row(generator.GetSequence().Tokens), "5,6");
                    // A token that is cancelled in a run: what was generated is there.
                    var stopped = Throws<OperationCanceledException>(() => generator.Run(token => {
                        source.Cancel();
                        return true;
                    }, signal, source.Token));
                    Same(stopped.CancellationToken, source.Token);
                    Check(generator.GetSequence().Tokens.Length > 2, "nothing is there");
                    Throws<OperationCanceledException>(() => generator.Step(null, source.Token));
                    signal.ThrowIfStopped();
                }
                var drawn = new List<string>();
                foreach (ulong seed in new ulong[] {3, 3, 4})
                    using (Generator generator = Started(session, new GeneratorOptions {Temperature = 1.5f, TopK = 50, TopP = 0.98f, MinP = 0.001f, RepetitionPenalty = 1.1f, RepetitionWindow = 8,
                        Seed = seed, MaxNewTokens = 12})) {
                        generator.Run();
                        drawn.Add(Row(generator.GetSequence().Tokens));
                    }
                Check(drawn[0] == drawn[1] && drawn[0] != drawn[2], "found " + string.Join("; ", drawn));
            });
            On("14", session => {
                using (Generator generator = Started(session)) {
                    Same(Ended(generator.Run()), "5 Capacity");
                    GeneratedToken step = generator.Step();
                    Same(step.Token + " " + step.End + " " + generator.GetSequence().Capacity, "-1 Capacity 14");
                }
            });
        }

        // The timeout is of all steps together: each of them alone is shorter.
        static void TestATimeoutIsOfTheWholeRun() {
            On("2048", session => {
                using (var signal = new Signal())
                using (Generator generator = Started(session)) {
                    signal.SetTimeout(TimeSpan.FromMilliseconds(200));
                    GeneratedRun run = generator.Run(token => {
                        Thread.Sleep(5);
                        return true;
                    }, signal);
                    Check(run.End == EndReason.Deadline && run.Count > 0 && run.Count < 60, Ended(run));
                    int before = generator.GetSequence().Tokens.Length;
                    Same(generator.Step().End, EndReason.None);
                    Same(generator.GetSequence().Tokens.Length, before + 1);
                }
            });
        }

        static void TestASinkThatThrows() {
            On("2048", session => {
                using (Generator generator = Started(session)) {
                    var found = new List<long>();
                    var mine = Throws<NotSupportedException>(() => generator.Run(token => {
                        found.Add(token);
                        if (found.Count == 3) throw new NotSupportedException("mine");
                        return true;
                    }));
                    Same(mine.Message, "mine");
                    Check(mine.StackTrace.Contains("TestASinkThatThrows"), mine.StackTrace);
                    Same(Row(found), Row(Part(0, 3)));
                    Same(generator.Step().Token, Story[3]);
                    // A sink that calls the generator that it is called by is refused, and the run goes on.
                    Code said = Code.Unknown;
                    generator.Run(token => {
                        said = Fails(Code.FailedPrecondition, () => generator.Step()).Code;
                        return false;
                    });
                    Same(said, Code.FailedPrecondition);
                }
            });
        }

        static void TestClosingAndAborting() {
            On("2048", session => {
                // Disposed of while a run is inside: that goes on, and later calls are refused.
                Generator closed = Started(session);
                var found = new List<long>();
                Same(Ended(closed.Run(token => {
                    found.Add(token);
                    if (found.Count == 3) closed.Dispose();
                    return found.Count < 10;
                })), "10 Callback");
                Same(Row(found), Row(Part(0, 10)));
                closed.Dispose();
                foreach (Action body in new Action[] {() => closed.Step(), () => closed.Prompt(Beginning), () => closed.GetSequence(), () => closed.GetState(), () => closed.Run(), () => closed.Accept(1),
                    () => closed.Rewind(0)})
                    Same(Throws<ObjectDisposedException>(body).ObjectName, "Generator");
                // Another thread aborts one, and disposes of it at once.
                using (var signal = new Signal()) {
                    Generator other = Started(session);
                    GeneratedRun run = default(GeneratedRun);
                    var runner = new Thread(() => run = other.Run(token => {
                        Thread.Sleep(1);
                        return true;
                    }, signal));
                    runner.Start();
                    Thread.Sleep(50);
                    signal.Abort();
                    other.Dispose();
                    runner.Join();
                    Same(run.End, EndReason.Aborted);
                }
            });
        }

        // A generator reads the weights of a model that was opened in memory, whatever became of model and session.
        static void TestAGeneratorOutlivesItsSession() {
            if (!System.IO.File.Exists(File)) return;  // TestGeneratedTokens says so
            Generator generator;
            using (Model model = Model.Open(System.IO.File.ReadAllBytes(File)))
            using (Session session = model.CreateSession(Keeps("64"))) generator = Started(session, new GeneratorOptions {MaxNewTokens = 24});
            for (int i = 0; i < 3; ++i) {
                GC.Collect();
                GC.WaitForPendingFinalizers();
            }
            var found = new List<long>();
            generator.Run(Into(found));
            Same(Row(found), Row(Story));
            generator.Dispose();
        }

        static void TestWhatIsNoDecoderIsRefused() {
            using (Model model = OpenDigits()) {
                Session session = model.CreateSession();
                QuarryException error = Fails(Code.Unsupported, () => session.CreateGenerator());
                Same(error.Id, "QR-R0032");
                Check(!error.Hint.Contains("qr_"), error.Hint);
                Fails(Code.InvalidArgument, () => session.CreateGenerator(new GeneratorOptions {TopP = 2}));
                session.Dispose();
                Throws<ObjectDisposedException>(() => session.CreateGenerator());
            }
            On("64", session => {
                using (Generator generator = session.CreateGenerator()) {
                    QuarryException error = Fails(Code.FailedPrecondition, () => generator.Step());
                    Same(error.Id, "QR-R0033");
                    Check(error.Hint.Contains("Generator.Prompt"), error.Message);
                    foreach (long[] tokens in new[] {new long[0], new long[] {-1}, new long[] {105}}) Fails(Code.InvalidArgument, () => generator.Prompt(tokens));
                }
            });
        }

        /// <summary>Words w0 to w104, one a token.</summary>
        static string WordTokenizer() {
            var vocabulary = new List<string>();
            for (int i = 0; i < 105; ++i) vocabulary.Add("\"w" + i + "\": " + i);
            return "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": [], \"normalizer\": null, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, " +
                "\"post_processor\": null, \"decoder\": null, \"model\": {\"type\": \"WordLevel\", \"vocab\": {" + string.Join(", ", vocabulary) + "}, \"unk_token\": \"w0\"}}";
        }

        static string Words(IEnumerable<long> tokens) {
            return "w" + string.Join(" w", tokens);
        }

        static void TestTexts() {
            byte[] data = Encoding.UTF8.GetBytes(WordTokenizer());
            Tokenizer tokenizer;
            try {
                tokenizer = Tokenizer.Open(data);
            } catch (QuarryException error) {
                Check(error.Code == Code.Unavailable && error.Message.Contains("libquarry-tokenizer") && error.Hint.Contains("QUARRY_TOKENIZER_LIBRARY"), error.Message);
                Console.WriteLine("skipped: TestTexts: there is no libquarry-tokenizer in the package");
                return;
            }
            Same(tokenizer.Vocabulary, 105L);
            Same(Row(tokenizer.Encode(Words(Beginning))), Row(Beginning));
            Same(tokenizer.Decode(Beginning), Words(Beginning));
            Same(tokenizer.Token("w77"), 77L);
            Same(Fails(Code.NotFound, () => tokenizer.Token("none")).Id, "QR-T0002");
            Same(Fails(Code.Corrupt, () => Tokenizer.Open(new byte[] {123})).Id, "QR-T0001");
            Same(Fails(Code.NotFound, () => Tokenizer.Open(Path.Combine(Scratch, "none.json"))).Id, "QR-F0001");
            Fails(Code.InvalidArgument, () => tokenizer.CreateStream(true, ""));
            string saved = Path.Combine(Scratch, "wörter.json");
            System.IO.File.WriteAllBytes(saved, data);
            using (Tokenizer again = Tokenizer.Open(saved))
            using (TextStream stream = again.CreateStream(true, "w6 w10")) {
                string said = "";
                foreach (long token in Part(0, 4)) said += stream.Push(token);
                Same(said + stream.Finish(), Words(Part(0, 4)));
                said = "";
                int count = 0;
                while (!stream.Stopped) said += stream.Push(Story[count++]);
                Same(count + " " + said, "6 " + Words(Part(0, 4)) + " ");
            }
            On("2048", session => {
                var said = new StringBuilder();
                TextSink sink = piece => said.Append(piece) != null;
                using (Generator generator = Started(session, new GeneratorOptions {MaxNewTokens = 24})) {
                    Same(Ended(generator.Run(tokenizer, sink)), "24 Length");
                    Same(said.ToString(), Words(Story));
                    generator.Rewind(10);
                    said.Clear();
                    Same(Ended(generator.Run(tokenizer, piece => said.Append(piece).Length < 9)), "4 Callback");
                }
                said.Clear();
                using (Generator generator = Started(session, new GeneratorOptions {StopTexts = new[] {"w6 w10", "never"}})) {
                    Same(Ended(generator.Run(tokenizer, sink)), "6 StopText");
                    Same(said.ToString(), Words(Part(0, 4)) + " ");
                    Fails(Code.InvalidArgument, () => generator.Run());
                    Throws<NotSupportedException>(() => generator.Run(tokenizer, piece => {
                        throw new NotSupportedException("mine");
                    }));
                }
            });
            tokenizer.Dispose();
            Same(Throws<ObjectDisposedException>(() => tokenizer.Encode("w1")).ObjectName, "Tokenizer");
        }
    }
}
