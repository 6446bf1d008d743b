// SPDX-License-Identifier: Apache-2.0
// The large headers that nearly every file of the program reads, precompiled: they took most of the time to build it.
// Files still include what they use.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <quarry/quarry.hpp>
