// SPDX-License-Identifier: Apache-2.0
package org.quarry.camera

import java.nio.ByteBuffer

/** A plane of a picture: bytes, how far its rows and its pixels lie apart. */
class Plane(val bytes: ByteBuffer, val rowStride: Int, val pixelStride: Int) {
    fun at(x: Int, y: Int): Int = bytes.get(y * rowStride + x * pixelStride).toInt() and 0xff
}

/** A picture as cameras give it: brightness, and two planes of colour at half its size, interleaved (NV12, NV21) or not. */
class Yuv(val width: Int, val height: Int, val y: Plane, val u: Plane, val v: Plane) {
    /** The middle square at [side] pixels, nearest ones, as red, green and blue from 0 to 255; BT.601, whole range. */
    inline fun square(side: Int, put: (x: Int, y: Int, red: Int, green: Int, blue: Int) -> Unit) {
        val crop = minOf(width, height)
        val left = (width - crop) / 2
        val top = (height - crop) / 2
        for (row in 0 until side) {
            for (column in 0 until side) {
                val x = left + column * crop / side
                val line = top + row * crop / side
                val light = y.at(x, line) shl 10
                val blueness = u.at(x / 2, line / 2) - 128
                val redness = v.at(x / 2, line / 2) - 128
                put(column, row, clamped(light + 1436 * redness), clamped(light - 352 * blueness - 731 * redness), clamped(light + 1815 * blueness))
            }
        }
    }

    fun clamped(value: Int): Int = minOf(255, maxOf(0, (value + 512) shr 10))
}
