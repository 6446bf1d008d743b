// SPDX-License-Identifier: Apache-2.0
@file:JvmName("CoroutinesKt")

package quarry.android

import android.content.res.AssetManager
import java.util.function.BiConsumer
import kotlin.coroutines.resume
import kotlin.coroutines.resumeWithException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext
import quarry.Generator
import quarry.Model
import quarry.QuarryRuntime
import quarry.Session
import quarry.Signal
import quarry.Tensor

/** Queues a run (as many at once as the option queue_depth says) and suspends until it ended; cancelling the coroutine aborts the run. Results lie in [room] where it is given. Errors are QuarryException. */
suspend fun Session.runAsync(given: Array<Tensor>, room: Array<Tensor?>? = null): Array<Tensor> = suspendCancellableCoroutine { waiting ->
    val run = submit(given, room, null)
    run.whenComplete(BiConsumer<Array<Tensor>?, Throwable?> { results, error ->
        if (error != null) waiting.resumeWithException(error) else waiting.resume(results!!)
    })
    waiting.invokeOnCancellation { run.cancel(true) }
}

/** Opens a model away from the calling thread; cancelling the coroutine stops it. */
suspend fun QuarryRuntime.openAsync(path: String, options: Map<String, String> = emptyMap()): Model = stoppable { signal -> open(path, options, signal, null) }

/** Opens a model of the folder assets where it lies in the package, away from the calling thread; cancelling the coroutine stops it. */
suspend fun QuarryRuntime.openAssetAsync(assets: AssetManager, name: String, options: Map<String, String> = emptyMap()): Model =
    stoppable { signal -> Assets.open(this, assets, name, options, signal, null) }

/** Makes a session, which may compile for long, away from the calling thread; cancelling the coroutine stops it. */
suspend fun Model.sessionAsync(options: Map<String, String> = emptyMap()): Session = stoppable { signal -> session(options, signal, null) }

/** Makes a generator of the session's, away from the calling thread; cancelling the coroutine stops it. */
suspend fun Session.generatorAsync(options: Generator.Options = Generator.Options()): Generator = stoppable { signal -> generator(options, signal) }

/** Makes the sequence these tokens, away from the calling thread; cancelling the coroutine stops it, and the same call goes on from there. */
suspend fun Generator.promptAsync(tokens: LongArray) = stoppable { signal -> prompt(tokens, signal) }

/** Work away from the calling thread, with a signal that the coroutine's cancellation aborts. */
internal suspend fun <T> stoppable(work: (Signal) -> T): T {
    val signal = Signal()
    var made: T? = null
    try {
        return withContext(Dispatchers.IO) {
            suspendCancellableCoroutine<T> { waiting ->
                waiting.invokeOnCancellation { signal.abort() }
                try {
                    val done = work(signal)
                    made = done
                    waiting.resume(done)
                } catch (error: Exception) {
                    waiting.resumeWithException(error)
                }
            }
        }
    } catch (error: Throwable) {
        (made as? AutoCloseable)?.close()  // it came after the coroutine was cancelled
        throw error
    } finally {
        signal.close()
    }
}
