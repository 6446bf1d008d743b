// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.Locale;

/**
 * Finds the library: the file that the property quarry.library names; else the one that the JAR carries for this system and processor, unpacked once for each
 * content; else libquarry-jni on java.library.path (an Android package has it there).
 */
final class NativeLibrary {
    private NativeLibrary() {}

    static synchronized void load() {
        String given = System.getProperty("quarry.library");
        if (given != null && !given.isEmpty()) {
            System.load(new File(given).getAbsolutePath());
            return;
        }
        String folder = "/quarry/native/" + system() + "-" + processor();
        try (InputStream list = NativeLibrary.class.getResourceAsStream(folder + "/files.txt")) {
            if (list != null) {
                System.load(unpacked(folder, list).toString());
                return;
            }
        } catch (IOException error) {
            throw (UnsatisfiedLinkError) new UnsatisfiedLinkError("quarry: the library in the JAR cannot be unpacked: " + error + "; the property quarry.library names one that is installed").initCause(error);
        }
        try {
            System.loadLibrary("quarry-jni");
        } catch (UnsatisfiedLinkError error) {
            throw (UnsatisfiedLinkError) new UnsatisfiedLinkError("quarry: found no library for " + system() + "-" + processor() + " in the JAR, and none on java.library.path ("
                + error.getMessage() + "); the property quarry.library names the file libquarry-jni").initCause(error);
        }
    }

    private static String system() {
        String name = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
        return name.startsWith("windows") ? "windows" : name.startsWith("mac") ? "macos" : "linux";
    }

    private static String processor() {
        String name = System.getProperty("os.arch", "").toLowerCase(Locale.ROOT);
        return name.equals("amd64") ? "x86_64" : name.equals("arm64") ? "aarch64" : name;
    }

    // The list's first line names the content; then files, the first of which is loaded.
    private static Path unpacked(String folder, InputStream list) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(list, StandardCharsets.UTF_8));
        String content = lines.readLine();
        String cache = System.getenv("XDG_CACHE_HOME");
        Path home = cache != null && !cache.isEmpty() ? Paths.get(cache) : Paths.get(System.getProperty("user.home", "."), ".cache");
        Path place = home.resolve("quarry-java").resolve(content);
        Path first = null;
        for (String file = lines.readLine(); file != null; file = lines.readLine()) {
            Path to = place.resolve(file);
            if (first == null) first = to;
            if (Files.exists(to)) continue;
            Files.createDirectories(to.getParent());
            // Another process may do the same: each file is whole when it gets its name.
            Path part = Files.createTempFile(to.getParent(), ".part", null);
            try (InputStream from = NativeLibrary.class.getResourceAsStream(folder + "/" + file)) {
                if (from == null) throw new IOException("found no " + file + " in the JAR");
                Files.copy(from, part, StandardCopyOption.REPLACE_EXISTING);
                part.toFile().setExecutable(true);
                Files.move(part, to, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(part);
            }
        }
        if (first == null) throw new IOException("found no file in its list");
        return first;
    }
}
