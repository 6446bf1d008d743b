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
import java.util.Collections;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;

/**
 * Finds the library: the file that the property quarry.library names; else the one that the JAR carries for this system and processor, unpacked once for each
 * content; else libquarry-jni on java.library.path (an Android package has it there).
 */
final class NativeLibrary {
    private static final Set<String> BESIDE = new HashSet<>();
    private static Path folder;  // of the file that was loaded; null: the system found it

    private NativeLibrary() {}

    static synchronized void load() {
        String given = System.getProperty("quarry.library");
        if (given != null && !given.isEmpty()) {
            load(new File(given).getAbsoluteFile().toPath());
            return;
        }
        String place = "/quarry/native/" + system() + "-" + processor();
        try (InputStream list = NativeLibrary.class.getResourceAsStream(place + "/files.txt")) {
            if (list != null) {
                load(unpacked(place, list));
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

    private static void load(Path file) {
        System.load(file.toString());
        folder = file.getParent();
    }

    /**
     * libquarry-PART-jni, from where libquarry-jni came, or as the system finds it. An app need not have it: the exception says so, each time.
     * `subject`: what it is for.
     */
    static void beside(String part, String subject) {
        Native.abiVersion();  // loads the other first
        synchronized (NativeLibrary.class) {
            if (BESIDE.contains(part)) return;
            String name = "quarry-" + part + "-jni";
            File file = folder == null ? null : folder.resolve(System.mapLibraryName(name)).toFile();
            try {
                if (file != null && file.exists()) System.load(file.toString());
                else System.loadLibrary(name);
            } catch (UnsatisfiedLinkError error) {
                throw new QuarryException(Code.UNAVAILABLE, "", subject + ": found no lib" + name + " that can be loaded (" + error.getMessage() + "), expected one beside libquarry-jni",
                    "pack lib" + name + " and libquarry-" + part + " with the app: a JAR that was built where they were has them", Collections.<QuarryException.Detail>emptyList());
            }
            BESIDE.add(part);
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
    private static Path unpacked(String from, InputStream list) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(list, StandardCharsets.UTF_8));
        String content = lines.readLine();
        String cache = System.getenv("XDG_CACHE_HOME");
        Path home = cache != null && !cache.isEmpty() ? Paths.get(cache) : Paths.get(System.getProperty("user.home", "."), ".cache");
        Path to = home.resolve("quarry-java").resolve(content);
        Path first = null;
        for (String file = lines.readLine(); file != null; file = lines.readLine()) {
            Path path = to.resolve(file);
            if (first == null) first = path;
            if (Files.exists(path)) continue;
            Files.createDirectories(path.getParent());
            // Another process may do the same: each file is whole when it gets its name.
            Path part = Files.createTempFile(path.getParent(), ".part", null);
            try (InputStream entry = NativeLibrary.class.getResourceAsStream(from + "/" + file)) {
                if (entry == null) throw new IOException("found no " + file + " in the JAR");
                Files.copy(entry, part, StandardCopyOption.REPLACE_EXISTING);
                part.toFile().setExecutable(true);
                Files.move(part, path, StandardCopyOption.ATOMIC_MOVE);
            } finally {
                Files.deleteIfExists(part);
            }
        }
        if (first == null) throw new IOException("found no file in its list");
        return first;
    }
}
