// SPDX-License-Identifier: Apache-2.0
package android.content.pm;

/** What the package uses of Android's class. */
public class ApplicationInfo {
    public String nativeLibraryDir;
}
