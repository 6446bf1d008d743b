// SPDX-License-Identifier: Apache-2.0
// Needs kotlinx-coroutines-core 1.3 or newer: those before have no Flow that lasts.
@file:JvmName("FlowsKt")

package quarry.android

import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import quarry.Generator
import quarry.Tokenizer

/**
 * Tokens, each picked when the one before it was collected, away from the collecting thread: until [most] were (0: no such end), or the model or its state ends them; a stop token
 * is left out. Cancelling the coroutine stops the step that is under way; what was generated is there, and another collection goes on behind it. Of maxNewTokens it knows nothing.
 */
fun Generator.tokens(most: Long = 0): Flow<Long> = flow {
    var count = 0L
    while (most == 0L || count < most) {
        val step = stoppable { signal -> step(signal) }
        if (step.end != Generator.End.NONE) return@flow
        ++count
        emit(step.token)
    }
}

/** The same as text, piece by piece, as far as it is certain: without special tokens, until one of [stops] too. */
fun Generator.texts(tokenizer: Tokenizer, most: Long = 0, vararg stops: String): Flow<String> = flow {
    val stream = tokenizer.stream(true, *stops)
    try {
        var count = 0L
        while (!stream.stopped() && (most == 0L || count < most)) {
            val step = stoppable { signal -> step(signal) }
            if (step.end != Generator.End.NONE) break
            ++count
            val piece = stream.push(step.token)
            if (piece.isNotEmpty()) emit(piece)
        }
        val rest = if (stream.stopped()) "" else stream.finish()
        if (rest.isNotEmpty()) emit(rest)
    } finally {
        stream.close()
    }
}
