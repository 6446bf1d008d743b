// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.CompilerServices;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Threading;

namespace Quarry {
    /// <summary>
    /// A sequence of tokens, and a session that goes on with it: <see cref="Session.CreateGenerator"/>. Calls of several threads take turns; it may be disposed of at any time,
    /// also while a call is inside. A <see cref="Signal"/>, a token or both stop any call; a timeout is of all runs of the call together.
    /// </summary>
    public sealed unsafe class Generator : QuarryObject {
        // Kept here: the library has its address.
        static readonly qr_token_sink_token ShowDelegate = Show;
        static readonly IntPtr ShowAddress = Marshal.GetFunctionPointerForDelegate(ShowDelegate);

        readonly object one = new object();
        readonly Shared runtime;  // which the handle keeps
        readonly string[] stopTexts;

        Generator(IntPtr made, Shared runtime, Shared data, string[] stopTexts) : base(new Handle(made, NativeGenerate.qr_generator_destroy, runtime, data)) {
            this.runtime = runtime;
            this.stopTexts = stopTexts;
        }

        /// <summary>`session` and `call` stay as long as this call; the library is there.</summary>
        [MethodImpl(MethodImplOptions.NoInlining)]  // Mono looks for a function when it compiles what calls it
        internal static Generator Created(IntPtr session, GeneratorOptions options, Call call, Shared runtime, Shared data) {
            long[] stops = options.StopTokens ?? new long[0];
            byte[] names = Text.Bytes(options.Names ?? "");
            var sampler = new qr_sampler_options {struct_size = (uint)sizeof(qr_sampler_options), top_k = options.TopK, temperature = options.Temperature, top_p = options.TopP, min_p = options.MinP,
                repetition_penalty = options.RepetitionPenalty, repetition_window = options.RepetitionWindow, seed = options.Seed};
            var how = new qr_generator_options {struct_size = (uint)sizeof(qr_generator_options), sampler = &sampler, stop_token_count = (ulong)stops.Length, max_new_tokens = options.MaxNewTokens,
                prompt_chunk = options.PromptChunk};
            IntPtr made;
            fixed (long* stopsAt = stops)
            fixed (byte* namesAt = names) {
                how.stop_tokens = stopsAt;
                how.names = Text.View(namesAt, names);
                call.Check(NativeGenerate.qr_generator_create(session, &how, call.Options, &made));
            }
            return new Generator(made, runtime, data, options.StopTexts == null ? new string[0] : (string[])options.StopTexts.Clone());
        }

        /// <summary>
        /// Makes the sequence these tokens: all of it, what was generated before included. What begins as the sequence before it did is not run again. A call that is stopped
        /// keeps what was run: the same call goes on from there.
        /// </summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/> (no token, one that the model has not), <see cref="Code.ResourceExhausted"/> (more than
        /// "state.capacity"), <see cref="Code.Cancelled"/>, <see cref="Code.DeadlineExceeded"/>, and as <see cref="Session.Run(Tensor[])"/></exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>.</exception>
        public void Prompt(long[] tokens, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            if (tokens == null) throw new ArgumentNullException("tokens");
            lock (one)
                using (Held held = Hold())
                using (var stopper = new Stopper(runtime.Pointer, signal, stop))
                    fixed (long* at = tokens) {
                        qr_run_options options = Options(stopper);
                        stopper.Check(NativeGenerate.qr_generator_prompt(held.Pointer, at, (ulong)tokens.Length, &options));
                    }
        }

        static qr_run_options Options(Stopper stopper) {
            return new qr_run_options {struct_size = (uint)sizeof(qr_run_options), signal = stopper.Pointer};
        }

        /// <summary>Picks one token and puts it behind the sequence.</summary>
        /// <exception cref="QuarryException"><see cref="Code.FailedPrecondition"/> (QR-R0033: no prompt), and as <see cref="Prompt"/></exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>.</exception>
        public GeneratedToken Step(Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            lock (one)
                using (Held held = Hold())
                using (var stopper = new Stopper(runtime.Pointer, signal, stop)) {
                    qr_run_options options = Options(stopper);
                    long token;
                    int end;
                    stopper.Check(NativeGenerate.qr_generator_step(held.Pointer, &options, &token, &end));
                    return new GeneratedToken(token, (EndReason)end);
                }
        }

        /// <summary>Who is shown the tokens of a run.</summary>
        sealed class Shown {
            internal TokenSink Sink;
            internal ExceptionDispatchInfo Thrown;
        }

        // What it throws waits until the run is back: no exception may cross the library's frames.
        static int Show(void* self, long token) {
            CallbackThread.Enter();
            var shown = (Shown)GCHandle.FromIntPtr((IntPtr)self).Target;
            try {
                return shown.Sink(token) ? (int)Native.QR_GO_ON : (int)Native.QR_STOP;
            } catch (Exception error) {
                shown.Thrown = ExceptionDispatchInfo.Capture(error);
                return (int)Native.QR_STOP;
            }
        }

        /// <summary>
        /// Picks tokens until there is a reason to end. An abort and a timeout of the signal are such reasons, and no errors: what was generated is there, and the next call goes
        /// on behind it. The sink may be null.
        /// </summary>
        /// <exception cref="QuarryException">As <see cref="Step"/>, but for what a signal does; <see cref="Code.InvalidArgument"/>: the options have stop texts, which want a
        /// tokenizer</exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>; what was generated is there all the same.</exception>
        public GeneratedRun Run(TokenSink sink = null, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            if (stopTexts.Length > 0)
                throw QuarryException.Refused("Run: found stop texts in the options and no tokenizer, expected one that says what texts tokens are", "call Run(tokenizer, sink)");
            return Tokens(sink, signal, stop);
        }

        GeneratedRun Tokens(TokenSink sink, Signal signal, CancellationToken stop) {
            var shown = new Shown {Sink = sink};
            GCHandle self = GCHandle.Alloc(shown);
            try {
                lock (one)
                    using (Held held = Hold())
                    using (var stopper = new Stopper(runtime.Pointer, signal, stop)) {
                        qr_run_options options = Options(stopper);
                        var to = new qr_token_sink {struct_size = (uint)sizeof(qr_token_sink), self = (void*)GCHandle.ToIntPtr(self), token = ShowAddress};
                        ulong count;
                        int end;
                        IntPtr status = NativeGenerate.qr_generator_run(held.Pointer, &options, sink == null ? null : &to, &count, &end);
                        if (shown.Thrown != null) {
                            if (status != IntPtr.Zero) Native.qr_status_destroy(status);
                            shown.Thrown.Throw();
                        }
                        stopper.Check(status);
                        if (end == NativeGenerate.QR_END_ABORTED) stop.ThrowIfCancellationRequested();
                        return new GeneratedRun((long)count, (EndReason)end);
                    }
            } finally {
                self.Free();
            }
        }

        /// <summary>The same, by its text: without special tokens, until a stop text too.</summary>
        /// <exception cref="QuarryException">As <see cref="Run(TokenSink, Signal, CancellationToken)"/></exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>; what was generated is there all the same.</exception>
        public GeneratedRun Run(Tokenizer tokenizer, TextSink sink, Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            if (tokenizer == null) throw new ArgumentNullException("tokenizer");
            if (sink == null) throw new ArgumentNullException("sink");
            using (TextStream stream = tokenizer.CreateStream(true, stopTexts)) {
                GeneratedRun run = Tokens(token => {
                    string piece = stream.Push(token);
                    return (piece.Length == 0 || sink(piece)) && !stream.Stopped;
                }, signal, stop);
                if (stream.Stopped) return new GeneratedRun(run.Count, EndReason.StopText);
                string rest = run.End == EndReason.Callback ? "" : stream.Finish();
                if (rest.Length > 0) sink(rest);
                return run;
            }
        }

        /// <summary>The logits of the next token, for a choice of the program's own: <see cref="Accept"/> goes on with what was chosen. A copy.</summary>
        /// <exception cref="QuarryException">As <see cref="Step"/></exception>
        /// <exception cref="OperationCanceledException">By <paramref name="stop"/>.</exception>
        public float[] Logits(Signal signal = null, CancellationToken stop = default(CancellationToken)) {
            lock (one)
                using (Held held = Hold())
                using (var stopper = new Stopper(runtime.Pointer, signal, stop)) {
                    qr_run_options options = Options(stopper);
                    float* logits;
                    ulong count;
                    stopper.Check(NativeGenerate.qr_generator_logits(held.Pointer, &options, &logits, &count));
                    var made = new float[count];
                    if (count > 0) Marshal.Copy((IntPtr)logits, made, 0, made.Length);
                    return made;
                }
        }

        /// <summary>Puts a token behind the sequence, as <see cref="Step"/> does with the one that it picks.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/></exception>
        public void Accept(long token) {
            lock (one)
                using (Held held = Hold()) QuarryException.Check(NativeGenerate.qr_generator_accept(held.Pointer, token));
        }

        /// <summary>Forgets the tokens from <paramref name="length"/> on; 0: all, and the seed begins again.</summary>
        /// <exception cref="QuarryException"><see cref="Code.OutOfRange"/> (past the sequence), <see cref="Code.Unsupported"/> (a pair that keeps its size goes back to 0 alone)</exception>
        public void Rewind(long length) {
            if (length < 0) throw QuarryException.Refused("length: found " + length + ", expected 0 or more");
            lock (one)
                using (Held held = Hold()) QuarryException.Check(NativeGenerate.qr_generator_rewind(held.Pointer, (ulong)length));
        }

        /// <summary>What there is so far.</summary>
        /// <exception cref="QuarryException"><see cref="Code.ResourceExhausted"/></exception>
        public TokenSequence GetSequence() {
            lock (one)
                using (Held held = Hold()) {
                    var info = new qr_sequence_info {struct_size = (uint)sizeof(qr_sequence_info)};
                    QuarryException.Check(NativeGenerate.qr_generator_sequence(held.Pointer, &info));
                    return new TokenSequence(Copied(info.tokens, info.count), info);
                }
        }

        internal static long[] Copied(long* tokens, ulong count) {
            var made = new long[count];
            if (count > 0) Marshal.Copy((IntPtr)tokens, made, 0, made.Length);
            return made;
        }

        /// <summary>What the generator's session keeps: to save it, or to ask for its size. After its <see cref="State.Load"/>, call <see cref="Restore"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.FailedPrecondition"/>: the session keeps none</exception>
        public State GetState() {
            lock (one)
                using (Held held = Hold()) {
                    IntPtr made;
                    QuarryException.Check(NativeGenerate.qr_generator_state(held.Pointer, &made));
                    return new State(new Handle(made, Native.qr_state_destroy));
                }
        }

        /// <summary>Says which tokens a state that was loaded has: the first <see cref="TokenSequence.Run"/> of the sequence when it was saved.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/> (another count), <see cref="Code.FailedPrecondition"/> (the session keeps no state)</exception>
        public void Restore(params long[] tokens) {
            if (tokens == null) throw new ArgumentNullException("tokens");
            lock (one)
                using (Held held = Hold())
                    fixed (long* at = tokens) QuarryException.Check(NativeGenerate.qr_generator_restore(held.Pointer, at, (ulong)tokens.Length));
        }
    }
}
