// SPDX-License-Identifier: Apache-2.0
package android.content;

import android.content.pm.ApplicationInfo;

/** What the package uses of Android's class. */
public abstract class Context {
    public abstract ApplicationInfo getApplicationInfo();
}
