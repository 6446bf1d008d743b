// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Threading;

namespace Quarry {
    /// <summary>
    /// The thread on which submitted runs end. A queue's own thread may not do it: the last to let go of a session destroys it, and Mono 6.8 stands still when a program
    /// ends whose pool had to begin a thread from one that is not its own.
    /// </summary>
    internal static class Reaper {
        static readonly List<Action> Waiting = new List<Action>();
        static Thread thread;

        /// <summary>Has it begin, on a thread of the program's.</summary>
        internal static void Start() {
            if (Volatile.Read(ref thread) != null) return;
            lock (Waiting) {
                if (thread != null) return;
                var made = new Thread(Work) {IsBackground = true, Name = "quarry-reaper"};
                made.Start();
                Volatile.Write(ref thread, made);
            }
        }

        internal static void Later(Action what) {
            lock (Waiting) {
                Waiting.Add(what);
                Monitor.Pulse(Waiting);
            }
        }

        static void Work() {
            while (true) {
                Action[] now;
                lock (Waiting) {
                    while (Waiting.Count == 0) Monitor.Wait(Waiting);
                    now = Waiting.ToArray();
                    Waiting.Clear();
                }
                foreach (Action what in now) what();
            }
        }
    }
}
