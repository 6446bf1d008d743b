// SPDX-License-Identifier: Apache-2.0
// Tokens and texts as flows, on a desktop's JVM: check.py compiles and runs it. The story is that of the tests of Java.
import java.nio.file.Files
import java.nio.file.Paths
import java.util.Collections
import kotlin.system.exitProcess
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import quarry.Code
import quarry.Generator
import quarry.QuarryException
import quarry.QuarryRuntime
import quarry.Session
import quarry.Tokenizer
import quarry.android.generatorAsync
import quarry.android.openAsync
import quarry.android.promptAsync
import quarry.android.sessionAsync
import quarry.android.texts
import quarry.android.tokens

private val beginning = longArrayOf(1, 3, 34, 9, 22, 4, 3, 18, 20, 7)
private val story = listOf<Long>(9, 3, 5, 3, 6, 10, 16, 4, 25, 3, 6, 8)

private fun check(is_so: Boolean, what: String) {
    if (!is_so) {
        System.err.println("FAILED: $what")
        exitProcess(1)
    }
}

private suspend fun tokensCome(session: Session) {
    val generator = session.generatorAsync(Generator.Options().stopTokens(16))
    generator.promptAsync(beginning)
    val some = generator.tokens(4).toList()
    check(some == story.take(4), "the first tokens: found $some")
    val rest = generator.tokens().toList()
    check(rest == story.subList(4, 6), "the tokens until the stop token: found $rest")
    generator.close()
    println("tokens: $some, then $rest and the stop token")
}

/** Cancelled amid it: what was collected is of the story, and another collection goes on behind it. */
private suspend fun cancellation(session: Session) {
    val generator = session.generatorAsync()
    generator.promptAsync(beginning)
    val found = Collections.synchronizedList(ArrayList<Long>())
    val job = GlobalScope.launch { generator.tokens().collect { found.add(it) } }
    while (found.size < 3) Thread.sleep(1)
    job.cancel()
    job.join()
    check(found.take(3) == story.take(3), "before the end: found $found")
    check(generator.tokens(5).toList().size == 5, "the generator does not go on after a cancelled collection")
    var said = ""
    try {
        generator.tokens().collect { throw UnsupportedOperationException("mine") }
    } catch (mine: UnsupportedOperationException) {
        said = mine.message!!
    }
    check(said == "mine", "a collector that throws: found '$said'")
    generator.close()
    try {
        generator.tokens().toList()
    } catch (closed: IllegalStateException) {
        said = closed.message!!
    }
    check(said == "Generator is closed", "a closed generator said '$said'")
    println("cancellation: the generator goes on")
}

private suspend fun textsCome(session: Session) {
    val words = (0 until 105).joinToString(", ") { "\"w$it\": $it" }
    val json = "{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"model\": {\"type\": \"WordLevel\", \"vocab\": {$words}, \"unk_token\": \"w0\"}}"
    val tokenizer = try {
        Tokenizer.open(json.toByteArray())
    } catch (missing: QuarryException) {
        check(missing.code() == Code.UNAVAILABLE, "the tokenizer: ${missing.message}")
        println("texts: skipped: the tree has no libquarry-tokenizer")
        return
    }
    val generator = session.generatorAsync()
    generator.promptAsync(tokenizer.encode(beginning.joinToString(" ") { "w$it" }, true))
    val text = generator.texts(tokenizer, 0, "w6 w10").toList().joinToString("")
    check(text == "w9 w3 w5 w3 ", "the text until the stop text: found '$text'")
    generator.close()
    tokenizer.close()
    println("texts: $text")
}

fun main(words: Array<String>) {
    runBlocking {
        val model = QuarryRuntime.shared().openAsync(words[0])
        val session = model.sessionAsync(mapOf("state" to "auto", "state.capacity" to "2048", "threads" to "1"))
        tokensCome(session)
        cancellation(session)
        textsCome(session)
        session.close()
        model.close()
    }
    println("all passed")
    exitProcess(0)
}
