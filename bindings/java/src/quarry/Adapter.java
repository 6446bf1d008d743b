// SPDX-License-Identifier: Apache-2.0
package quarry;

/**
 * Low-rank updates of weights (LoRA) that a session's runs compute with: {@link Session#openAdapter}, {@link Session#setAdapter}. It may outlive the session, and serve
 * several.
 */
public final class Adapter extends NativeObject {
    Adapter(long handle) {
        super(ADAPTER, handle);
    }
}
