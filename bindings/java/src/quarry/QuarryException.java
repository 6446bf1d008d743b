// SPDX-License-Identifier: Apache-2.0
package quarry;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Why a call failed. Every failure of this package is one; programs look at {@link #code} and {@link #id}, people read the message. */
public class QuarryException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** A key ("node", "op", "file", "reason" ...) and its value. */
    public static final class Detail implements java.io.Serializable {
        private static final long serialVersionUID = 1;
        public final String key, value;

        Detail(String key, String value) {
            this.key = key;
            this.value = value;
        }

        @Override
        public String toString() {
            return key + ": " + value;
        }
    }

    private final Code code;
    private final String id, hint, plain;
    private final ArrayList<Detail> details;

    QuarryException(Code code, String id, String message, String hint, List<Detail> details) {
        super(whole(id, message, hint, details));
        this.code = code;
        this.id = id;
        this.plain = message;
        this.hint = hint;
        this.details = new ArrayList<>(details);
    }

    /** What this package refuses before the library is asked. */
    static QuarryException refused(String message, String hint) {
        return new QuarryException(Code.INVALID_ARGUMENT, "", message, hint, Collections.<Detail>emptyList());
    }

    // Called by the native part.
    static QuarryException make(int code, byte[] id, byte[] message, byte[] hint, byte[][] details) {
        List<Detail> list = new ArrayList<>();
        for (int i = 0; i + 1 < details.length; i += 2) list.add(new Detail(Native.text(details[i]), Native.text(details[i + 1])));
        return new QuarryException(Code.of(code), Native.text(id), Native.text(message), inJava(Native.text(hint)), list);
    }

    private static String whole(String id, String message, String hint, List<Detail> details) {
        StringBuilder text = new StringBuilder(id.isEmpty() ? "quarry" : id).append(": ");
        Map<String, Integer> reasons = new LinkedHashMap<>();
        for (Detail detail : details) {
            if (detail.key.equals("reason")) reasons.merge(detail.value, 1, Integer::sum);
            if (detail.key.equals("file") && !message.contains(detail.value.substring(detail.value.lastIndexOf('/') + 1))) text.append(detail.value).append(": ");
        }
        text.append(message);
        for (Map.Entry<String, Integer> reason : reasons.entrySet()) {
            text.append("; ").append(reason.getKey());
            if (reason.getValue() > 1) text.append(" (").append(reason.getValue()).append(" times)");
        }
        if (!hint.isEmpty()) text.append(" (hint: ").append(hint).append(")");
        return text.toString();
    }

    private static final Map<String, String> NAMES = new HashMap<>();

    static {
        String[] names = {"qr_generator_options.names", "Generator.Options.names", "qr_generator_options", "Generator.Options", "qr_generator_prompt", "Generator.prompt",
            "qr_generator_rewind", "Generator.rewind", "qr_state_rewind", "State.rewind", "qr_state_reset", "State.reset", "qr_state_fork", "State.fork", "qr_state_write", "State.write",
            "qr_session_create", "Model.session", "qr_session_run", "Session.run", "qr_session_submit", "Session.submit", "qr_session_clone", "Session.copy",
            "qr_session_recover", "Session.recover", "qr_session_abort", "the future's cancel", "qr_model_check", "Model.check", "qr_signal_reset", "Signal.reset"};
        for (int i = 0; i < names.length; i += 2) NAMES.put(names[i], names[i + 1]);
    }

    // Hints call things by the names of C.
    private static String inJava(String hint) {
        Matcher matcher = Pattern.compile("qr_generator_options\\.names|qr_\\w+").matcher(hint);
        StringBuffer text = new StringBuffer();
        while (matcher.find()) {
            String name = NAMES.get(matcher.group());
            matcher.appendReplacement(text, Matcher.quoteReplacement(name == null ? matcher.group() : name));
        }
        return matcher.appendTail(text).toString();
    }

    public Code code() {
        return code;
    }

    /** "QR-C0107": docs/errors.md has a section for each. Empty for what this package refuses itself. */
    public String id() {
        return id;
    }

    /** What was found and what was expected; {@link #getMessage} has the id, the reasons and the hint too. */
    public String plainMessage() {
        return plain;
    }

    /** What to do about it; may be empty. */
    public String hint() {
        return hint;
    }

    public List<Detail> details() {
        return Collections.unmodifiableList(details);
    }
}
