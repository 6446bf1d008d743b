// SPDX-License-Identifier: Apache-2.0
import android.content.res.AssetFileDescriptor;
import android.content.res.AssetManager;
import android.os.ParcelFileDescriptor;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.HashMap;
import java.util.Map;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import quarry.Code;
import quarry.Model;
import quarry.QuarryException;
import quarry.QuarryRuntime;
import quarry.android.Assets;

/** Models in an Android package, on Linux: the package is written here, and what Android says of its entries is this file's word. java AssetsTest MODELS SCRATCH */
public final class AssetsTest {
    /** A package, and where each entry begins. */
    private static final class Apk extends AssetManager {
        private final Path path;
        private final Map<String, long[]> stored = new HashMap<>();  // name: offset, size
        private final Map<String, byte[]> all = new HashMap<>();
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        private final ZipOutputStream zip = new ZipOutputStream(bytes);

        Apk(Path path) {
            this.path = path;
        }

        /** alignment: of the first byte, as zipalign does it (an extra field); 0: compressed. */
        void add(String name, byte[] content, int alignment, int beside) throws IOException {
            ZipEntry entry = new ZipEntry("assets/" + name);
            if (alignment > 0) {
                CRC32 sum = new CRC32();
                sum.update(content);
                entry.setMethod(ZipEntry.STORED);
                entry.setSize(content.length);
                entry.setCrc(sum.getValue());
                long begin = bytes.size() + 30 + entry.getName().length() + 6;
                int padding = (int) ((alignment - begin % alignment) % alignment) + beside;
                byte[] extra = new byte[6 + padding];  // Android's number for it, a size, the alignment
                extra[0] = 0x35;
                extra[1] = (byte) 0xD9;
                extra[2] = (byte) (2 + padding);
                extra[3] = (byte) ((2 + padding) >> 8);
                extra[4] = (byte) alignment;
                extra[5] = (byte) (alignment >> 8);
                entry.setExtra(extra);
            }
            zip.putNextEntry(entry);
            zip.flush();
            if (alignment > 0) stored.put(name, new long[] {bytes.size(), content.length});
            zip.write(content);
            zip.closeEntry();
            all.put(name, content);
        }

        void close() throws IOException {
            zip.close();
            Files.write(path, bytes.toByteArray());
        }

        @Override
        public InputStream open(String name) throws IOException {
            if (!all.containsKey(name)) throw new FileNotFoundException(name);
            return new ByteArrayInputStream(all.get(name));
        }

        @Override
        public AssetFileDescriptor openFd(String name) throws IOException {
            long[] place = stored.get(name);
            if (place == null) throw new FileNotFoundException("This file can not be opened as a file descriptor; it is probably compressed");
            RandomAccessFile file = new RandomAccessFile(path.toFile(), "r");
            int number = number(path);
            return new AssetFileDescriptor() {
                @Override
                public ParcelFileDescriptor getParcelFileDescriptor() {
                    return new ParcelFileDescriptor() {
                        @Override
                        public int getFd() {
                            return number;
                        }
                    };
                }

                @Override
                public long getStartOffset() {
                    return place[0];
                }

                @Override
                public long getLength() {
                    return place[1];
                }

                @Override
                public void close() throws IOException {
                    file.close();
                }
            };
        }
    }

    private static int number(Path path) throws IOException {
        try (DirectoryStream<Path> open = Files.newDirectoryStream(Paths.get("/proc/self/fd"))) {
            for (Path one : open) {
                try {
                    if (Files.readSymbolicLink(one).equals(path.toRealPath())) return Integer.parseInt(one.getFileName().toString());
                } catch (IOException gone) {
                    continue;
                }
            }
        }
        throw new AssertionError("no descriptor of " + path);
    }

    private static void check(boolean is, String what) {
        if (!is) throw new AssertionError(what);
    }

    private static boolean isMapped(Path path) throws IOException {
        for (String line : Files.readAllLines(Paths.get("/proc/self/maps"))) if (line.endsWith(path.toRealPath().toString())) return true;
        return false;
    }

    private static void works(Apk apk, String name, boolean mapped) throws IOException {
        try (Model model = Assets.open(QuarryRuntime.shared(), apk, name)) {
            check(isMapped(apk.path) == mapped, name + ": found it " + (mapped ? "read into memory" : "mapped") + ", expected it " + (mapped ? "mapped" : "read into memory"));
            model.verify();
            check(model.inputs().size() == 1 && model.outputs().get(0).name().equals("scores"), name + ": found " + model.outputs());
        }
        check(!isMapped(apk.path), name + ": found it mapped when its model was closed");
    }

    private static String refused(Apk apk, String name) {
        try {
            Assets.open(QuarryRuntime.shared(), apk, name).close();
        } catch (IOException | QuarryException failed) {
            return failed.getMessage();
        }
        throw new AssertionError(name + ": found it opened, expected it refused");
    }

    public static void main(String[] words) throws Exception {
        byte[] model = Files.readAllBytes(Paths.get(words[0], "digits.qrm"));
        Apk apk = new Apk(Paths.get(words[1], "base.apk"));
        apk.add("first.txt", new byte[777], 0, 0);
        apk.add("pages.qrm", model, 4096, 0);
        apk.add("words.qrm", model, 64, 0);
        apk.add("odd.qrm", model, 4, 4 + 1);
        apk.add("packed.qrm", model, 0, 0);
        apk.add("empty.qrm", new byte[0], 4, 0);
        apk.add("text.qrm", new byte[500], 4, 0);
        apk.close();
        check(apk.stored.get("pages.qrm")[0] % 4096 == 0 && apk.stored.get("odd.qrm")[0] % 4 == 1, "the package is not as it was to be");
        works(apk, "pages.qrm", true);
        works(apk, "words.qrm", true);
        works(apk, "odd.qrm", false);
        String said = refused(apk, "packed.qrm");
        check(said.contains("asset 'packed.qrm': found it compressed") && said.contains("androidResources { noCompress += \"qrm\" }"), said);
        said = refused(apk, "none.qrm");
        check(said.contains("asset 'none.qrm': there is none"), said);
        said = refused(apk, "empty.qrm");
        check(said.contains("found 0 bytes, expected a model"), said);
        refused(apk, "text.qrm");
        // A descriptor's part that the file does not have, and one that is none of a model.
        try (RandomAccessFile file = new RandomAccessFile(apk.path.toFile(), "r")) {
            int number = number(apk.path);
            long[][] wrong = {{file.length(), 1}, {1, file.length()}, {0, Long.MAX_VALUE}, {Long.MAX_VALUE, 0}, {Long.MAX_VALUE, Long.MAX_VALUE}};
            for (long[] part : wrong) {
                try {
                    QuarryRuntime.shared().open(number, part[0], part[1], null, null, null).close();
                    throw new AssertionError("found a part outside of the file opened");
                } catch (QuarryException failed) {
                    check(failed.code() == Code.OUT_OF_RANGE, failed.toString());
                }
            }
            for (long[] part : new long[][] {{-1, 5}, {5, -1}}) {
                try {
                    QuarryRuntime.shared().open(number, part[0], part[1], null, null, null).close();
                    throw new AssertionError("found a part below 0 opened");
                } catch (QuarryException failed) {
                    check(failed.getMessage().contains("expected none below 0"), failed.toString());
                }
            }
        }
        // Cut off and damaged packages: an error or a sound model, never a crash.
        byte[] whole = Files.readAllBytes(apk.path);
        long[] place = apk.stored.get("pages.qrm");
        java.util.Random random = new java.util.Random(7);
        int opened = 0;
        for (int i = 0; i < 200; ++i) {
            byte[] changed = whole.clone();
            for (int n = 0; n < 8; ++n) changed[(int) place[0] + random.nextInt(i < 100 ? 256 : (int) place[1])] ^= (byte) (1 << random.nextInt(8));
            if (i % 10 == 9) changed = java.util.Arrays.copyOf(changed, (int) (place[0] + random.nextInt((int) place[1])));
            Apk other = new Apk(Paths.get(words[1], "damaged.apk"));
            other.stored.putAll(apk.stored);
            other.all.putAll(apk.all);
            Files.deleteIfExists(other.path);
            Files.write(other.path, changed);
            try (Model model2 = Assets.open(QuarryRuntime.shared(), other, "pages.qrm")) {
                model2.verify();
                ++opened;
            } catch (QuarryException expected) {
                continue;
            }
        }
        check(opened < 20, "found " + opened + " of 200 damaged models sound");
        System.out.println("assets: all passed");
    }
}
