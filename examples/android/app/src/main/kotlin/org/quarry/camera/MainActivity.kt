// SPDX-License-Identifier: Apache-2.0
package org.quarry.camera

import android.Manifest
import android.annotation.SuppressLint
import android.app.Activity
import android.content.pm.PackageManager
import android.graphics.ImageFormat
import android.hardware.HardwareBuffer
import android.hardware.camera2.CameraCaptureSession
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.media.Image
import android.media.ImageReader
import android.os.Bundle
import android.os.Handler
import android.os.HandlerThread
import android.widget.TextView
import quarry.LogSink
import quarry.QuarryRuntime
import quarry.android.Assets
import quarry.android.Logcat
import quarry.android.Npu

/** Shows the best class of what the camera sees. Everything but the text is done on one thread of its own, picture by picture. */
class MainActivity : Activity() {
    private lateinit var text: TextView
    private val thread = HandlerThread("camera").apply { start() }
    private val handler by lazy { Handler(thread.looper) }
    private val pictures = ImageReader.newInstance(640, 480, ImageFormat.YUV_420_888, 2, HardwareBuffer.USAGE_CPU_READ_OFTEN)
    private var classifier: Classifier? = null
    private var camera: CameraDevice? = null

    override fun onCreate(state: Bundle?) {
        super.onCreate(state)
        text = TextView(this).also { setContentView(it) }
        handler.post { load() }
        if (checkSelfPermission(Manifest.permission.CAMERA) == PackageManager.PERMISSION_GRANTED) begin()
        else requestPermissions(arrayOf(Manifest.permission.CAMERA), 1)
    }

    override fun onRequestPermissionsResult(request: Int, permissions: Array<String>, results: IntArray) {
        if (results.firstOrNull() == PackageManager.PERMISSION_GRANTED) begin() else say("The camera was refused.")
    }

    private fun load() {
        try {
            val runtime = QuarryRuntime.Builder().log(Logcat(), LogSink.Level.WARN).build()
            val model = Assets.open(runtime, assets, "classifier.qrm")
            val made = Classifier(model, listOf(Npu.options(this, null), mapOf("backend" to "gpu"), mapOf("backend" to "cpu")))
            classifier = made
            say(made.tried.joinToString("\n"))
        } catch (failed: Exception) {
            say(failed.toString())
        }
    }

    @SuppressLint("MissingPermission")
    private fun begin() {
        pictures.setOnImageAvailableListener({ reader -> reader.acquireLatestImage()?.use { show(it) } }, handler)
        val manager = getSystemService(CameraManager::class.java)
        manager.openCamera(manager.cameraIdList[0], object : CameraDevice.StateCallback() {
            override fun onOpened(opened: CameraDevice) {
                camera = opened
                @Suppress("DEPRECATION")  // its successor is of API 28 with an executor, and does no more here
                opened.createCaptureSession(listOf(pictures.surface), object : CameraCaptureSession.StateCallback() {
                    override fun onConfigured(session: CameraCaptureSession) {
                        val request = opened.createCaptureRequest(CameraDevice.TEMPLATE_PREVIEW).apply { addTarget(pictures.surface) }
                        session.setRepeatingRequest(request.build(), null, handler)
                    }

                    override fun onConfigureFailed(session: CameraCaptureSession) = say("The camera gives no such pictures.")
                }, handler)
            }

            override fun onDisconnected(lost: CameraDevice) = lost.close()

            override fun onError(failed: CameraDevice, error: Int) {
                failed.close()
                say("The camera failed: $error")
            }
        }, handler)
    }

    private fun show(image: Image) {
        val ready = classifier ?: return
        val buffer = image.hardwareBuffer ?: return say("The camera's pictures lie in no hardware buffers.")
        val begun = System.nanoTime()
        val (best, score) = buffer.use { ready.classify(it) }
        say("class %d: %.2f\n%.1f ms\n%s".format(best, score, (System.nanoTime() - begun) / 1e6, ready.tried.last()))
    }

    private fun say(what: String) = runOnUiThread { text.text = what }

    override fun onDestroy() {
        camera?.close()
        handler.post {
            pictures.close()
            classifier?.close()
            thread.quitSafely()
        }
        super.onDestroy()
    }
}
