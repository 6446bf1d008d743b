// SPDX-License-Identifier: Apache-2.0
// What quarry.android adds for Kotlin, on a desktop's JVM: check.py compiles and runs it.
import java.nio.ByteBuffer
import java.nio.file.Files
import java.nio.file.Paths
import kotlin.system.exitProcess
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.async
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.quarry.camera.Classifier
import org.quarry.camera.Plane
import org.quarry.camera.Yuv
import quarry.QuarryException
import quarry.QuarryRuntime
import quarry.Tensor
import quarry.android.openAsync
import quarry.android.runAsync
import quarry.android.sessionAsync

private fun check(is_so: Boolean, what: String) {
    if (!is_so) {
        System.err.println("FAILED: $what")
        exitProcess(1)
    }
}

private fun runs(digits: String) = runBlocking {
    val file = Files.readAllBytes(Paths.get(digits, "test_images.npy"))
    val image = FloatArray(64) { (file[128 + it].toInt() and 0xff) / 255f }
    val model = QuarryRuntime.shared().openAsync("$digits/digits.qrm")
    val session = model.sessionAsync(mapOf("backend" to "cpu", "queue_depth" to "8"))
    val answers = List(8) { GlobalScope.async { session.runAsync(arrayOf(Tensor.of(image, 1, 1, 8, 8)))[0].toFloats() } }.map { it.await() }
    val best = answers[0].indices.maxBy { answers[0][it] }
    check(best == 9, "the first digit: found $best, expected 9")
    check(answers.all { it.contentEquals(answers[0]) }, "runs of several coroutines differ")
    println("runs: the first digit is a $best, eight times")
    session.close()
    model.close()
}

private fun errors() = runBlocking {
    try {
        QuarryRuntime.shared().openAsync("/nowhere/model.qrm")
        check(false, "a model that is not there was opened")
    } catch (found: QuarryException) {
        println("errors: ${found.id()}")
    }
}

/** Nothing of a run that was cancelled comes back, and the session goes on. */
private fun cancellation(digits: String) = runBlocking {
    val model = QuarryRuntime.shared().openAsync("$digits/digits.qrm")
    val session = model.sessionAsync(mapOf("backend" to "cpu", "queue_depth" to "64"))
    val tensor = Tensor.allocate(session.inputs()[0].type(), 1, 1, 8, 8)
    val jobs = List(32) { GlobalScope.launch(Dispatchers.Default) { session.runAsync(arrayOf(tensor)) } }
    jobs.forEach { it.cancel() }
    jobs.forEach { it.join() }
    check(session.runAsync(arrayOf(tensor)).size == 1, "the session does not run after runs that were cancelled")
    println("cancellation: 32 cancelled, the session goes on")
    session.close()
    model.close()
}

/** The example's pixels: white, grey and red of a picture in NV12. */
private fun pixels() {
    fun picture(y: Int, u: Int, v: Int): Yuv {
        val light = ByteBuffer.allocate(64 * 48).apply { for (i in 0 until 64 * 48) put(i, y.toByte()) }
        val colours = ByteBuffer.allocate(64 * 24).apply { for (i in 0 until 32 * 24) put(2 * i, u.toByte()).put(2 * i + 1, v.toByte()) }
        val second = (colours.duplicate().position(1) as ByteBuffer).slice()
        return Yuv(64, 48, Plane(light, 64, 1), Plane(colours, 64, 2), Plane(second, 64, 2))
    }
    for ((given, expected) in listOf(Triple(255, 128, 128) to Triple(255, 255, 255), Triple(100, 128, 128) to Triple(100, 100, 100), Triple(76, 85, 255) to Triple(254, 0, 0)))
        picture(given.first, given.second, given.third).square(24) { _, _, red, green, blue ->
            check(Math.abs(red - expected.first) <= 2 && Math.abs(green - expected.second) <= 2 && Math.abs(blue - expected.third) <= 2, "NV12 $given: found $red $green $blue, expected $expected")
        }
    println("the example's pixels: right")
}

fun main(words: Array<String>) {
    runs(words[0])
    errors()
    cancellation(words[0])
    pixels()
    println("all passed")
    exitProcess(0)
}
