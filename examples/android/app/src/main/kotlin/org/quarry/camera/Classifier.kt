// SPDX-License-Identifier: Apache-2.0
package org.quarry.camera

import android.hardware.HardwareBuffer
import quarry.DataType
import quarry.Model
import quarry.QuarryException
import quarry.Session
import quarry.Tensor
import quarry.android.HardwareBuffers

/** The network on the first of [choices] (options of a session) that takes it; [tried] says what the others said. */
class Classifier(private val model: Model, choices: List<Map<String, String>>) : AutoCloseable {
    val tried = mutableListOf<String>()
    private val session: Session
    private val input: Tensor
    private val side: Int
    private val planar: Boolean

    init {
        var made: Session? = null
        for (options in choices) {
            try {
                made = model.session(options)
                tried += "${options["backend"]}: runs"
                break
            } catch (refused: QuarryException) {
                tried += "${options["backend"]}: ${refused.message}"
            }
        }
        session = made ?: throw IllegalStateException(tried.joinToString("\n"))
        val info = session.inputs()[0]
        val shape = info.shape()
        planar = shape[1] == 3L
        side = (if (planar) shape[2] else shape[1]).toInt()
        input = Tensor.allocate(info.type(), *shape)
    }

    /** Of the camera's picture where it lies, locked as long as its pixels are read. */
    fun classify(picture: HardwareBuffer): Pair<Int, Float> {
        val memory = HardwareBuffers.forReading(session, picture)
        try {
            val planes = (0 until memory.planes()).map { Plane(memory.plane(it), memory.rowBytes(it), memory.pixelBytes(it)) }
            return classify(Yuv(memory.width(), memory.height(), planes[0], planes[1], planes[2]))
        } finally {
            memory.close()
        }
    }

    /** Number and score of the best class. */
    fun classify(picture: Yuv): Pair<Int, Float> {
        val floats = input.type() == DataType.F32
        picture.square(side) { x, y, red, green, blue ->
            put(x, y, 0, red, floats)
            put(x, y, 1, green, floats)
            put(x, y, 2, blue, floats)
        }
        val scores = session.run(input)[0].toFloats()
        var best = 0
        for (i in scores.indices) if (scores[i] > scores[best]) best = i
        return Pair(best, scores[best])
    }

    private fun put(x: Int, y: Int, channel: Int, value: Int, floats: Boolean) {
        val at = if (planar) (channel * side + y) * side + x else (y * side + x) * 3 + channel
        if (floats) input.bytes().putFloat(at * 4, value / 127.5f - 1f) else input.bytes().put(at, value.toByte())
    }

    override fun close() {
        session.close()
        model.close()
    }
}
